package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryCheckpointMetadata

import io.cleancut.error.Errors

/**
 * An epoch of a stopped query that takes no input: it ends where the epoch before it ended, with
 * other settings and other stores. Spark goes on behind it as behind any other.
 */
private[offline] object OfflineEpoch {

  /**
   * Writes it to the logs of a checkpoint, after all of its state is there.
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
      location: String,
      query: StoredQuery,
      settings: Map[String, String],
      written: Seq[Rewritten],
      act: String
  ): Long = {
    val epoch = query.epoch + 1
    val logs = new StreamingQueryCheckpointMetadata(session, location, true)
    def add(isAdded: Boolean): Unit = if (!isAdded) {
      val reason = s"somebody else has written epoch $epoch meanwhile; is the query running?"
      throw Errors.offlineRefused(act, location, reason)
    }
    add(logs.offsetLog.add(epoch, withSettings(query.offsets, settings)))
    add(logs.commitLog.add(epoch, withIds(query, written)))
    epoch
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
