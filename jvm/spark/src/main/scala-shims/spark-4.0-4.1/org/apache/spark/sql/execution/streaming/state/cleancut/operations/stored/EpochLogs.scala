package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.io.{InputStream, OutputStream}
import java.nio.charset.StandardCharsets.UTF_8

import scala.annotation.unused
import scala.io.Source

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.checkpointing._

/**
 * Spark's logs of a query's epochs. Entries have one form in this Spark version.
 *
 * @param isNew
 *   whether missing logs are created
 */
final private[cleancut] class EpochLogs(session: SparkSession, location: String, isNew: Boolean) {
  private val leftovers = if (isNew) Nil else EpochLogs.missingIn(session, location)
  val offsetLog: OffsetSeqLog = new OptionalOffsetLog(session, location)
  val commitLog: CommitLog = new AnyFormCommitLog(session, location)

  // Spark's logs create their directories even if they are only read.
  leftovers.foreach { path =>
    CheckpointFileManager.create(path, EpochLogs.conf(session)).delete(path)
  }
}

private[cleancut] object EpochLogs {
  type Offsets = OffsetSeq
  type Recorded = OffsetSeqMetadata
  type Commit = CommitMetadata

  def offsetsAt(location: String): String = new Path(location, "offsets").toString
  def commitsAt(location: String): String = new Path(location, "commits").toString

  /** The settings that Spark records for the query. */
  def recorded(offsets: Offsets): Option[Recorded] = offsets.metadata

  /** The offset of each source, by the index of the source. */
  def bySource(offsets: Offsets): Seq[(String, Option[Offset])] =
    offsets.offsets.zipWithIndex.map { case (offset, number) => number.toString -> offset }

  /** Whether there is an offset for each place in the plan where a source is read. */
  def areOfPlaces(@unused offsets: Offsets): Boolean = true

  /** Whether Spark identifies sources by their names. */
  def areNamed(@unused offsets: Offsets): Boolean = false

  /** The entry of a query that has read no input. */
  def unread(
      sources: Seq[String],
      @unused areNamed: Boolean,
      recorded: OffsetSeqMetadata
  ): Offsets = OffsetSeq(sources.map(_ => None), Some(recorded))

  def withConf(offsets: Offsets)(change: Map[String, String] => Map[String, String]): Offsets =
    offsets.copy(metadata =
      offsets.metadata.map(recorded => recorded.copy(conf = change(recorded.conf)))
    )

  /** The commit of a query's first epoch. */
  def firstCommit(withIds: Boolean): Commit =
    CommitMetadata(0L, Option.when(withIds)(Map.empty[Long, Array[Array[String]]]))

  def withIds(commit: Commit, ids: Map[Long, Array[Array[String]]]): Commit =
    commit.copy(stateUniqueIds = Some(ids))

  /** The missing directories, the innermost first. */
  private def missingIn(session: SparkSession, location: String): Seq[Path] = {
    val logs = Seq(offsetsAt(location), commitsAt(location)).map(new Path(_))
    val outer = Iterator.iterate(new Path(location))(_.getParent).takeWhile(_ != null)
    // A bucket always exists, and a request for its root has no key.
    def exists(path: Path) =
      path.isRoot || CheckpointFileManager.create(path, conf(session)).exists(path)
    logs.filterNot(exists) ++ outer.takeWhile(!exists(_))
  }

  private def conf(session: SparkSession) = session.sessionState.newHadoopConf()
}

/** An offset log that is only read. */
abstract private[operations] class ReadOnlyOffsetLog(session: SparkSession, location: String)
    extends OptionalOffsetLog(session, location)

/** Returns no entries if there is no log. */
private[operations] class OptionalOffsetLog(session: SparkSession, location: String)
    extends OffsetSeqLog(session, EpochLogs.offsetsAt(location)) {
  override protected def listBatches: Array[Long] =
    if (fileManager.exists(metadataPath)) super.listBatches else Array.empty
}

abstract private[operations] class ReadOnlyCommitLog(session: SparkSession, location: String)
    extends AnyFormCommitLog(session, location)

/**
 * Entries with and without store IDs. Spark's own log only reads entries of the form that the
 * session would write, regardless of the form that the query has written.
 */
private[operations] class AnyFormCommitLog(session: SparkSession, location: String)
    extends CommitLog(session, EpochLogs.commitsAt(location)) {
  import AnyFormCommitLog._

  override protected def listBatches: Array[Long] =
    if (fileManager.exists(metadataPath)) super.listBatches else Array.empty

  override def deserialize(in: InputStream): CommitMetadata = {
    val lines = Source.fromInputStream(in, UTF_8.name).getLines()
    if (!lines.hasNext) throw new IllegalStateException("an entry of the commit log is empty")
    validateVersion(lines.next().trim, WithIds)
    CommitMetadata(lines.nextOption().getOrElse("{}"))
  }

  override def serialize(entry: CommitMetadata, out: OutputStream): Unit = {
    val version = if (entry.stateUniqueIds.isDefined) WithIds else WithoutIds
    out.write(s"v$version\n${entry.json}".getBytes(UTF_8))
  }
}

private object AnyFormCommitLog {
  val WithoutIds = 1
  val WithIds = 2
}
