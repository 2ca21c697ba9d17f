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
 * Spark's logs of a query's epochs. This line of Spark has one form of their entries.
 *
 * @param isNew
 *   whether they are begun where they are not there
 */
final private[cleancut] class EpochLogs(session: SparkSession, location: String, isNew: Boolean) {
  private val leftovers = if (isNew) Nil else EpochLogs.missingIn(session, location)
  val offsetLog: OffsetSeqLog = new OffsetsThere(session, location)
  val commitLog: CommitLog = new CommitsOfAnyForm(session, location)

  // These logs make their directories also for who only looks.
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

  /** The settings that Spark keeps for the query. */
  def recorded(offsets: Offsets): Option[Recorded] = offsets.metadata

  /** The offset of each source, by the number of the source. */
  def bySource(offsets: Offsets): Seq[(String, Option[Offset])] =
    offsets.offsets.zipWithIndex.map { case (offset, number) => number.toString -> offset }

  /** Whether Spark identifies sources by their names. */
  def areNamed(@unused offsets: Offsets): Boolean = false

  /** The entry of a query that has read nothing. */
  def unread(
      sources: Seq[String],
      @unused areNamed: Boolean,
      recorded: OffsetSeqMetadata
  ): Offsets = OffsetSeq(sources.map(_ => None), Some(recorded))

  def withConf(offsets: Offsets)(change: Map[String, String] => Map[String, String]): Offsets =
    offsets.copy(metadata = offsets.metadata.map(of => of.copy(conf = change(of.conf))))

  /** Of the epoch with which a query begins. */
  def firstCommit(withIds: Boolean): Commit =
    CommitMetadata(0L, Option.when(withIds)(Map.empty[Long, Array[Array[String]]]))

  def withIds(commit: Commit, ids: Map[Long, Array[Array[String]]]): Commit =
    commit.copy(stateUniqueIds = Some(ids))

  /** The directories that are not there yet, the innermost first. */
  private def missingIn(session: SparkSession, location: String): Seq[Path] = {
    val logs = Seq(offsetsAt(location), commitsAt(location)).map(new Path(_))
    val outer = Iterator.iterate(new Path(location))(_.getParent).takeWhile(_ != null)
    // A bucket is there, and has no name below itself to be asked for.
    def isThere(path: Path) =
      path.isRoot || CheckpointFileManager.create(path, conf(session)).exists(path)
    logs.filterNot(isThere) ++ outer.takeWhile(!isThere(_))
  }

  private def conf(session: SparkSession) = session.sessionState.newHadoopConf()
}

/** Logs that are only read. */
abstract private[operations] class OffsetsAtRest(session: SparkSession, location: String)
    extends OffsetsThere(session, location)

/** None where there is no log. */
private[operations] class OffsetsThere(session: SparkSession, location: String)
    extends OffsetSeqLog(session, EpochLogs.offsetsAt(location)) {
  override protected def listBatches: Array[Long] =
    if (fileManager.exists(metadataPath)) super.listBatches else Array.empty
}

abstract private[operations] class CommitsAtRest(session: SparkSession, location: String)
    extends CommitsOfAnyForm(session, location)

/**
 * Entries with ids of stores, and without: Spark's own log takes only those that the session would
 * write, whatever the query has written.
 */
private[operations] class CommitsOfAnyForm(session: SparkSession, location: String)
    extends CommitLog(session, EpochLogs.commitsAt(location)) {
  import CommitsOfAnyForm._

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

private object CommitsOfAnyForm {
  val WithoutIds = 1
  val WithIds = 2
}
