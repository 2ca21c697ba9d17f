package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.{FileNotFoundException, IOException}

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.CompactibleFileStreamLog
import org.apache.spark.sql.execution.streaming.sinks.{FileStreamSinkLog, SinkFileStatus}
import org.apache.spark.sql.internal.SQLConf

/**
 * The log of Spark's file sink: one entry for each epoch, with the names of the epoch's files, and
 * periodically a compacted entry for all epochs before it. Spark cannot compact if an epoch before
 * it has no entry, so a query whose epochs have a gap stops there.
 *
 * Readers find files by these entries only. Entries of epochs that a rollback hides are renamed to
 * names that are no entries and that contain the epoch of the rollback. They are renamed back when
 * the rollback is undone.
 *
 * @param output
 *   output path of the sink
 */
final private[operations] class SparkFileSink(session: SparkSession, output: String) {
  import SparkFileSink._

  private val log = new Path(output, "_spark_metadata")
  private val files: FileSystem = log.getFileSystem(session.sessionState.newHadoopConf())

  /** Why the sink cannot be rolled back to an epoch. */
  def problem(source: Long): Option[String] = {
    val all = entries()
    // Includes entries that would be renamed back.
    val known = all.filter(entry => entry.epoch <= source && entry.aside.forall(_ > source))
    val first = known.filter(_.isCompacted).map(_.epoch).maxOption
    // Of the missing entries before it, Spark has deleted some; after it there were none.
    val last = all.filter(entry => entry.isCompacted && entry.aside.isEmpty).map(_.epoch).maxOption
    val missing = last.filter(_ > source).flatMap { _ =>
      (first.getOrElse(-1L) + 1 to source).find(epoch => !known.exists(_.epoch == epoch))
    }
    if (all.isEmpty) Some(s"$log does not exist or is empty: no file sink has written there")
    else
      missing.map { epoch =>
        s"the sink has compacted its log since, and deleted the entry of epoch $epoch in $log, " +
          s"so the files that were added after epoch $source are not known"
      }
  }

  /** Whether it has entries. */
  def isWritten: Boolean = entries().nonEmpty

  /** Whether it has entries, and none of this epoch. */
  def lacks(epoch: Long): Boolean = {
    val all = entries()
    all.nonEmpty && !all.exists(entry => entry.epoch == epoch && entry.aside.isEmpty)
  }

  /**
   * Updates the sink after an operation: it has the files of the epochs up to `source`, and an
   * entry for each epoch up to the operation's. Can be called again if it was interrupted.
   */
  def follow(source: Long, epoch: Long): Unit = {
    for (entry <- entries(); by <- entry.aside if entry.epoch <= source && by > source)
      move(entry.name, entry.copy(aside = None).name)
    for (entry <- entries() if entry.aside.isEmpty && entry.epoch > source && entry.epoch < epoch)
      if (entry.isCompacted || !isEmpty(entry))
        move(entry.name, entry.copy(aside = Some(epoch)).name)
    fill(epoch)
  }

  /** Adds entries with Spark's own log, which also compacts them when due. */
  private def fill(epoch: Long): Unit = {
    val visible = entries().filter(_.aside.isEmpty)
    val first = visible.filter(_.isCompacted).map(_.epoch).maxOption
    val existing = visible.map(_.epoch).toSet
    val spark = new FileStreamSinkLog(FileStreamSinkLog.VERSION, atInterval, log.toString, None)
    val from = first.orElse(existing.minOption).getOrElse(0L)
    (from to epoch).filterNot(existing).foreach { number =>
      if (!spark.add(number, Array.empty[SinkFileStatus])) {
        throw new IOException(
          s"entry $number of $log was added concurrently; is the query running?"
        )
      }
    }
  }

  /**
   * A session with the compaction interval. Spark derives the interval from the compacted entries,
   * of which some may be renamed. If there is none, the setting of the session applies.
   */
  private def atInterval: SparkSession = {
    val key = SQLConf.FILE_SINK_LOG_COMPACT_INTERVAL
    val compacted = entries().filter(_.isCompacted).map(_.epoch).distinct.takeRight(2)
    val interval = compacted match {
      case Seq(one, other) => Some(other - one)
      case Seq(only)       =>
        val default = session.sessionState.conf.getConf(key)
        Some(CompactibleFileStreamLog.deriveCompactInterval(default, only.toInt).toLong)
      case _ => None
    }
    val clone = session.cloneSession()
    interval.foreach(epochs => clone.sessionState.conf.setConfString(key.key, epochs.toString))
    clone
  }

  private def isEmpty(entry: Entry): Boolean =
    files.getFileStatus(new Path(log, entry.name)).getLen <= EmptyBytes

  /** Hadoop also renames the checksum file, if there is one. */
  private def move(from: String, to: String): Unit = {
    files.delete(new Path(log, to), false)
    if (!files.rename(new Path(log, from), new Path(log, to)))
      throw new IOException(s"$from in $log could not be renamed to $to")
  }

  private def entries(): Seq[Entry] =
    try files.listStatus(log).toSeq.map(_.getPath.getName).flatMap(Entry.parse).sortBy(_.epoch)
    catch { case _: FileNotFoundException => Nil }
}

private object SparkFileSink {

  /** Content of an entry without files: only the version. */
  private val EmptyBytes = 3L

  /**
   * @param isCompacted
   *   whether it includes all entries before it
   * @param aside
   *   epoch of the operation that renamed it
   */
  final private case class Entry(epoch: Long, isCompacted: Boolean, aside: Option[Long]) {
    def name: String =
      s"$epoch${if (isCompacted) ".compact" else ""}${aside.fold("")(by => s".before-$by")}"
  }

  private object Entry {
    private val Name = """([0-9]+)(\.compact)?(?:\.before-([0-9]+))?""".r

    def parse(name: String): Option[Entry] = name match {
      case Name(epoch, compacted, by) =>
        Some(Entry(epoch.toLong, compacted != null, Option(by).map(_.toLong)))
      case _ => None
    }
  }
}
