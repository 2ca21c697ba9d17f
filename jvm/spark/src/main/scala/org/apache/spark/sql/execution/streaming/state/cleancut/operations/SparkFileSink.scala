package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.{FileNotFoundException, IOException}

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.CompactibleFileStreamLog
import org.apache.spark.sql.execution.streaming.sinks.{FileStreamSinkLog, SinkFileStatus}
import org.apache.spark.sql.internal.SQLConf

/**
 * What Spark's own sink of files keeps of a query's epochs: an entry for each, which names the
 * epoch's files, and each some entries one that stands for all before it. That one cannot be made
 * where an epoch before it has no entry, so that a query stops there whose epochs have a gap.
 *
 * Readers find files by these entries alone. Those of epochs that a query has gone back behind are
 * put aside under names that nobody takes for entries, with the epoch of the rollback, and come
 * back when that is undone.
 *
 * @param output
 *   what the sink writes to
 */
final private[operations] class SparkFileSink(session: SparkSession, output: String) {
  import SparkFileSink._

  private val log = new Path(output, "_spark_metadata")
  private val files: FileSystem = log.getFileSystem(session.sessionState.newHadoopConf())

  /** Why the sink cannot be taken to what it had after an epoch. */
  def problem(source: Long): Option[String] = {
    val found = entries()
    // With what would come back.
    val known = found.filter(of => of.epoch <= source && of.aside.forall(_ > source))
    val first = known.filter(_.isCompacted).map(_.epoch).maxOption
    // Of those that lack before it Spark has deleted some; after it there never were any.
    val last = found.filter(of => of.isCompacted && of.aside.isEmpty).map(_.epoch).maxOption
    val missing = last.filter(_ > source).flatMap { _ =>
      (first.getOrElse(-1L) + 1 to source).find(epoch => !known.exists(_.epoch == epoch))
    }
    if (found.isEmpty) Some(s"$log does not exist or is empty: no sink of files has written there")
    else
      missing.map { epoch =>
        s"the sink has put its entries together since, and deleted that of epoch $epoch in $log, " +
          s"so that it does not tell any more what came after epoch $source"
      }
  }

  /** Whether it has entries. */
  def isWritten: Boolean = entries().nonEmpty

  /** Whether it has entries, and none of this epoch. */
  def lacks(epoch: Long): Boolean = {
    val found = entries()
    found.nonEmpty && !found.exists(of => of.epoch == epoch && of.aside.isEmpty)
  }

  /**
   * After an act: the sink has the files of the epochs up to `source`, and an entry for each up to
   * the act's. May be called again where it was killed.
   */
  def follow(source: Long, epoch: Long): Unit = {
    for (of <- entries(); by <- of.aside if of.epoch <= source && by > source)
      move(of.name, of.copy(aside = None).name)
    for (of <- entries() if of.aside.isEmpty && of.epoch > source && of.epoch < epoch)
      if (of.isCompacted || !isEmpty(of)) move(of.name, of.copy(aside = Some(epoch)).name)
    fill(epoch)
  }

  /** By Spark's own means, which also put entries together where that is due. */
  private def fill(epoch: Long): Unit = {
    val found = entries().filter(_.aside.isEmpty)
    val first = found.filter(_.isCompacted).map(_.epoch).maxOption
    val there = found.map(_.epoch).toSet
    val spark = new FileStreamSinkLog(FileStreamSinkLog.VERSION, atInterval, log.toString, None)
    (first.orElse(there.minOption).getOrElse(0L) to epoch).filterNot(there).foreach { of =>
      if (!spark.add(of, Array.empty[SinkFileStatus])) {
        throw new IOException(s"entry $of of $log has come meanwhile; is the query running?")
      }
    }
  }

  /**
   * Every how many epochs entries are put together, Spark tells by those that are, and some may be
   * aside; where there is none it is for the session to say.
   */
  private def atInterval: SparkSession = {
    val key = SQLConf.FILE_SINK_LOG_COMPACT_INTERVAL
    val found = entries().filter(_.isCompacted).map(_.epoch).distinct.takeRight(2)
    val interval = found match {
      case Seq(one, other) => Some(other - one)
      case Seq(only)       =>
        val default = session.sessionState.conf.getConf(key)
        Some(CompactibleFileStreamLog.deriveCompactInterval(default, only.toInt).toLong)
      case _ => None
    }
    val own = session.cloneSession()
    interval.foreach(of => own.sessionState.conf.setConfString(key.key, of.toString))
    own
  }

  private def isEmpty(entry: Entry): Boolean =
    files.getFileStatus(new Path(log, entry.name)).getLen <= EmptyBytes

  /** Hadoop takes the file of checksums along, where it keeps one. */
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

  /** Of an entry without files: the version alone. */
  private val EmptyBytes = 3L

  /**
   * @param isCompacted
   *   whether it stands for all before it
   * @param aside
   *   the epoch of the act that put it aside
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
