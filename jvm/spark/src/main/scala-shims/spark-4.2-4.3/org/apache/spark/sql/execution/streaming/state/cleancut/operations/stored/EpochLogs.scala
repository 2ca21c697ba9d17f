package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.checkpointing._

/**
 * Spark's logs of a query's epochs. This line of Spark has several forms of their entries.
 *
 * @param isNew
 *   whether they are begun where they are not there
 */
final private[cleancut] class EpochLogs(session: SparkSession, location: String, isNew: Boolean) {
  val offsetLog = new OffsetSeqLog(session, EpochLogs.offsetsAt(location), !isNew)
  val commitLog = new CommitLog(session, EpochLogs.commitsAt(location), !isNew)
}

private[cleancut] object EpochLogs {
  type Offsets = OffsetSeqBase
  type Recorded = OffsetSeqMetadataBase
  type Commit = CommitMetadataBase

  def offsetsAt(location: String): String = new Path(location, "offsets").toString
  def commitsAt(location: String): String = new Path(location, "commits").toString

  /** The settings that Spark keeps for the query. */
  def recorded(offsets: Offsets): Option[Recorded] = offsets.metadataOpt

  /** The offset of each source, by the name of the source, or by its number. */
  def bySource(offsets: Offsets): Seq[(String, Option[Offset])] = offsets match {
    case seq: OffsetSeq =>
      seq.offsets.zipWithIndex.map { case (offset, number) => number.toString -> offset }
    case map: OffsetMap => map.offsetsMap.toSeq.sortBy(_._1)
    case other => throw new IllegalArgumentException(s"offsets of version ${other.version}")
  }

  /** Whether Spark identifies sources by their names. */
  def areNamed(offsets: Offsets): Boolean = offsets match {
    case map: OffsetMap => !map.offsetsMap.keys.forall(_.toIntOption.isDefined)
    case _              => false
  }

  /** The entry of a query that has read nothing. */
  def unread(sources: Seq[String], areNamed: Boolean, recorded: OffsetSeqMetadata): Offsets =
    if (!areNamed) OffsetSeq(sources.map(_ => None), Some(recorded))
    else {
      val OffsetSeqMetadata(watermarkMs, timestampMs, conf) = recorded
      val none = sources.map(_ -> Option.empty[Offset]).toMap
      OffsetMap(none, OffsetSeqMetadataV2(watermarkMs, timestampMs, conf))
    }

  def withConf(offsets: Offsets)(change: Map[String, String] => Map[String, String]): Offsets =
    offsets match {
      case seq: OffsetSeq =>
        seq.copy(metadataOpt = seq.metadataOpt.map { case of: OffsetSeqMetadata =>
          of.copy(conf = change(of.conf))
        })
      case map: OffsetMap =>
        map.copy(metadata = map.metadata.copy(conf = change(map.metadata.conf)))
      case other => throw new IllegalArgumentException(s"offsets of version ${other.version}")
    }

  /** Of the epoch with which a query begins. */
  def firstCommit(withIds: Boolean): Commit =
    if (withIds) CommitMetadataV2(0L, Some(Map.empty[Long, Array[Array[String]]]))
    else CommitMetadata()

  def withIds(commit: Commit, ids: Map[Long, Array[Array[String]]]): Commit =
    commit.withStateUniqueIds(Some(ids))
}

/** Logs that are only read. */
abstract private[operations] class OffsetsAtRest(session: SparkSession, location: String)
    extends OffsetSeqLog(session, EpochLogs.offsetsAt(location), true)

abstract private[operations] class CommitsAtRest(session: SparkSession, location: String)
    extends CommitLog(session, EpochLogs.commitsAt(location), true)
