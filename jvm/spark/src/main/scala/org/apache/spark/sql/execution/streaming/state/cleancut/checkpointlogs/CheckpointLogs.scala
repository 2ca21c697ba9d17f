package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.util.Try

import org.apache.hadoop.fs.Path

import io.cleancut.coordinator.SparkLogs
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.error.Errors
import io.cleancut.format.FormatNote
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix, ObjectStore}

/**
 * Spark's files of one checkpoint, read as objects.
 *
 * @param checkpoint
 *   store whose root is the checkpoint location
 */
final class CheckpointLogs(
    location: String,
    checkpoint: ObjectStore,
    override val retention: CutRetention
) extends SparkLogs {

  override def queryId(): Option[String] =
    checkpoint.get(ObjectKey(CheckpointLogs.Metadata)).flatMap(FormatNote.queryIdOf)

  override def offsets(epoch: Long): String =
    CheckpointLogs.written(location, epoch).getOrElse {
      val key = ObjectKey(s"${CheckpointLogs.Offsets}/$epoch")
      val entry = checkpoint.get(key).getOrElse {
        throw Errors.offsetsMissing(location, epoch, s"${checkpoint.location}/$key")
      }
      new String(entry, UTF_8)
    }

  override def close(): Unit = {
    CheckpointLogs.lastOffsets.remove(location)
    ()
  }

  override def lastPlainCommit(): Option[Long] = checkpoint
    .list(ObjectPrefix(s"${CheckpointLogs.Commits}/"))
    .map(_.key.name.stripPrefix(s"${CheckpointLogs.Commits}/"))
    .flatMap(name => Try(name.toLong).toOption)
    .maxOption
}

object CheckpointLogs {

  /** Spark's directories of these logs. */
  val Commits = "commits"
  val Offsets = "offsets"

  /** Directory of the logs of sources, by index or name. */
  val Sources = "sources"

  /** Spark's file with the query ID. */
  val Metadata = "metadata"

  val names: Set[String] = Set(Commits, Offsets)

  /** The entry number of a path in a log of Spark. */
  def entryOf(log: Path, path: Path): Option[Long] =
    if (path.getParent == log) path.getName.toLongOption else None

  // The last entry of each log that this process wrote, so that it need not be read back.
  private val lastOffsets = new ConcurrentHashMap[String, (Long, String)]

  def wroteOffsets(location: String, epoch: Long, entry: String): Unit = {
    lastOffsets.put(location, epoch -> entry)
    ()
  }

  private def written(location: String, epoch: Long): Option[String] =
    Option(lastOffsets.get(location)).collect { case (`epoch`, entry) => entry }
}
