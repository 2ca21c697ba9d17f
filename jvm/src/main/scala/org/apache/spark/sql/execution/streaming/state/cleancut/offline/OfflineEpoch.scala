package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata
import org.apache.spark.sql.execution.streaming.state.{
  OperatorStateMetadataV2,
  OperatorStateMetadataWriter
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.error.Errors

/**
 * An epoch of a stopped query that takes no input: it ends where the epoch before it ended, with
 * other settings and other stores. Spark goes on behind it as behind any other.
 *
 * Its state is there, and was read again, before either log has an entry. The entry of the offset
 * log is marked, so that whoever finds it without one of the commit log knows that the act was
 * killed between the two, and that no query has run on it; it is taken away then, and the act
 * begins again.
 */
private[offline] object OfflineEpoch {

  /** Beside the settings of an entry; Spark passes over what it does not know, and drops it. */
  private val Mark = "spark.sql.streaming.stateStore.cleancut.offlineAct"

  def isOne(offsets: OffsetSeqBase): Boolean =
    offsets.metadataOpt.exists(_.conf.contains(Mark))

  /** Takes away what a killed act has left in the logs. */
  def takeBack(session: SparkSession, query: StoredQuery): Unit = if (query.isHalfDone) {
    retired(session, query).bringBack()
    new StreamingQueryCheckpointMetadata(session, query.location, true).offsetLog
      .purgeAfter(query.epoch)
  }

  private def spreadIn(query: StoredQuery) = query.operators.filter(_.isSpread).map(_.id)

  private def retired(session: SparkSession, query: StoredQuery) =
    new RetiredPartitions(query.location, query.epoch + 1, session.sessionState.newHadoopConf())

  /**
   * Writes it to the logs, after all of its state is there.
   *
   * @param query
   *   as it is after the epoch before
   * @param settings
   *   that take the place of those which are recorded for the query
   * @return
   *   its number
   */
  def commit(
      session: SparkSession,
      query: StoredQuery,
      run: OfflineRun,
      act: String,
      settings: Map[String, String],
      written: Seq[Rewritten]
  ): Long = {
    val epoch = query.epoch + 1
    val logs = new StreamingQueryCheckpointMetadata(session, query.location, true)
    def add(isAdded: Boolean): Unit = if (!isAdded) {
      val reason = s"somebody else has written epoch $epoch meanwhile; is the query running?"
      throw Errors.offlineRefused(act, query.location, reason)
    }
    add(logs.offsetLog.add(epoch, withSettings(query.offsets, settings + (Mark -> act))))
    settings.get(SQLConf.SHUFFLE_PARTITIONS.key).map(_.toInt).foreach { partitions =>
      describe(session, query, partitions)
      // A cut says itself which stores there are.
      if (!run.isByCuts) retired(session, query).retire(spreadIn(query), partitions)
    }
    add(logs.commitLog.add(epoch, withIds(query, written)))
    epoch
  }

  /** For readers of the state; the query itself goes by the settings. */
  private def describe(session: SparkSession, query: StoredQuery, partitions: Int): Unit = {
    val hadoopConf = session.sessionState.newHadoopConf()
    val conf = new SerializableConfiguration(hadoopConf)
    new StateMetadataPartitionReader(query.location, conf, query.epoch).allOperatorStateMetadata
      .collect { case v2: OperatorStateMetadataV2 =>
        val directory = new Path(query.stateRoot, v2.operatorInfo.operatorId.toString)
        val stores = v2.stateStoreInfo.map(_.copy(numPartitions = partitions))
        OperatorStateMetadataWriter
          .createWriter(directory, hadoopConf, v2.version, Some(query.epoch + 1))
          .write(v2.copy(stateStoreInfo = stores))
      }
    ()
  }

  private def withSettings(offsets: OffsetSeqBase, settings: Map[String, String]): OffsetSeqBase =
    offsets match {
      case v1: OffsetSeq =>
        v1.copy(metadataOpt = v1.metadataOpt.map { case of: OffsetSeqMetadata =>
          of.copy(conf = of.conf ++ settings)
        })
      case v2: OffsetMap =>
        v2.copy(metadata = v2.metadata.copy(conf = v2.metadata.conf ++ settings))
      case other => throw new IllegalArgumentException(s"offsets of version ${other.version}")
    }

  private def withIds(query: StoredQuery, written: Seq[Rewritten]): CommitMetadataBase =
    query.commit.stateUniqueIds.fold(query.commit) { _ =>
      val ids = written.groupBy(_.operator).map { case (operator, all) =>
        operator -> all.groupBy(_.partition).toArray.sortBy(_._1).map {
          _._2.sortBy(_.store).map(_.info.stateStoreCkptId.get).toArray
        }
      }
      query.commit.withStateUniqueIds(Some(ids))
    }
}
