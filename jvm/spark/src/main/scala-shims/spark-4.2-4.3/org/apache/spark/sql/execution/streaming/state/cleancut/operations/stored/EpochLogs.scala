package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.checkpointing._

/**
 * Spark's logs of a query's epochs. Entries have several forms in this Spark version.
 *
 * @param isNew
 *   whether missing logs are created
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

  /** The settings that Spark records for the query. */
  def recorded(offsets: Offsets): Option[Recorded] = offsets.metadataOpt

  /** The offset of each source, by the name or the index of the source. */
  def bySource(offsets: Offsets): Seq[(String, Option[Offset])] = offsets match {
    case seq: OffsetSeq =>
      seq.offsets.zipWithIndex.map { case (offset, number) => number.toString -> offset }
    case map: OffsetMap => map.offsetsMap.toSeq.sortBy(_._1)
    case other => throw new IllegalArgumentException(s"offsets of version ${other.version}")
  }

  /** Whether there is an offset for each place in the plan where a source is read. */
  def areOfPlaces(offsets: Offsets): Boolean = offsets.isInstanceOf[OffsetSeq]

  /** Whether Spark identifies sources by their names. */
  def areNamed(offsets: Offsets): Boolean = offsets match {
    case map: OffsetMap => !map.offsetsMap.keys.forall(_.toIntOption.isDefined)
    case _              => false
  }

  /** The entry of a query that has read no input. */
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
        seq.copy(metadataOpt = seq.metadataOpt.map { case recorded: OffsetSeqMetadata =>
          recorded.copy(conf = change(recorded.conf))
        })
      case map: OffsetMap =>
        map.copy(metadata = map.metadata.copy(conf = change(map.metadata.conf)))
      case other => throw new IllegalArgumentException(s"offsets of version ${other.version}")
    }

  /** The commit of a query's first epoch. */
  def firstCommit(withIds: Boolean): Commit =
    if (withIds) CommitMetadataV2(0L, Some(Map.empty[Long, Array[Array[String]]]))
    else CommitMetadata()

  def withIds(commit: Commit, ids: Map[Long, Array[Array[String]]]): Commit =
    commit.withStateUniqueIds(Some(ids))
}

/** An offset log that is only read. */
abstract private[operations] class ReadOnlyOffsetLog(session: SparkSession, location: String)
    extends OffsetSeqLog(session, EpochLogs.offsetsAt(location), true)

abstract private[operations] class ReadOnlyCommitLog(session: SparkSession, location: String)
    extends CommitLog(session, EpochLogs.commitsAt(location), true)
