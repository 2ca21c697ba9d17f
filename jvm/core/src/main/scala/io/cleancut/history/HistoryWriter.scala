package io.cleancut.history

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.slf4j.LoggerFactory

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix, ObjectStore}

/**
 * Writes the history of a query next to its cuts, with longer retention. For one thread at a time.
 *
 * Records are written in batches, so that one request writes a file with many epochs, or the epochs
 * of a minute. The run after a crashed driver creates unwritten records from retained cuts, which
 * have less information. Many files are compacted to one, which is created before they are deleted;
 * so readers, or a concurrent writer, may find a record twice, but never miss one.
 *
 * @param location
 *   location of the query's checkpoint
 * @param cutOf
 *   reads the cut of an epoch; None if it does not exist
 * @param keepMs
 *   retention of files, by the clock of the store
 * @param keptCuts
 *   number of epochs whose cuts are retained, which limits the unwritten records
 */
final class HistoryWriter(
    location: String,
    store: ObjectStore,
    cutOf: Long => Option[Cut],
    keepMs: Long,
    keptCuts: Int,
    clock: Clock
) {
  import HistoryWriter._

  private val flushRecords = Math.min(FlushRecords, keptCuts)

  private val waiting = mutable.ArrayBuffer.empty[EpochRecord]
  private var sinceNs = 0L
  private var known = Option.empty[mutable.ArrayBuffer[HistoryLayout.Of]]
  private var last = -1L

  /** Adds an epoch after all earlier ones. */
  def add(record: EpochRecord): Unit = {
    val files = known.getOrElse(begin(record.epoch))
    if (record.epoch > last + 1) waiting ++= drawn(last + 1, record.epoch)
    if (waiting.isEmpty) sinceNs = clock.monotonicNs()
    waiting += record
    last = record.epoch
    val isDue = waiting.size >= flushRecords || clock.monotonicNs() - sinceNs >= FlushNs
    if (isDue) flush(files, () => true)
  }

  /**
   * Writes the added records.
   *
   * @param mayWrite
   *   called right before the first write; if it is false nothing is written
   */
  def flush(mayWrite: () => Boolean = () => true): Unit = known.foreach(flush(_, mayWrite))

  private def flush(
      files: mutable.ArrayBuffer[HistoryLayout.Of],
      mayWrite: () => Boolean
  ): Unit = if (waiting.nonEmpty) {
    val records = waiting.toSeq
    val file = HistoryFile.write(records)
    waiting.clear()
    if (mayWrite()) {
      files += put(records, file)
      mergeDue(files)
    }
  }

  private def mergeDue(files: mutable.ArrayBuffer[HistoryLayout.Of]): Unit =
    Levels.foreach { level =>
      val ofLevel = files.filter(file => level.holds(file.last - file.first + 1)).toSeq
      if (ofLevel.size >= MergedFiles) merge(ofLevel, files)
    }

  /** Lists the existing files. */
  private def begin(next: Long): mutable.ArrayBuffer[HistoryLayout.Of] = {
    val listed = store.list(ObjectPrefix(HistoryLayout.Directory)).toVector
    val oldest = clock.wallMs() - keepMs
    val (over, kept) = listed.partition(_.modifiedMs < oldest)
    store.delete(over.map(_.key).filter(key => HistoryLayout.parse(key.name).isDefined))
    val files = mutable.ArrayBuffer.from(kept.flatMap(info => HistoryLayout.parse(info.key.name)))
    // A rolled-back query continues after an epoch that is not the last one in the history.
    val before = files.map(_.last).filter(_ < next)
    last =
      if (files.exists(file => file.first <= next && file.last >= next)) next - 1
      else before.maxOption.getOrElse(-1L)
    known = Some(files)
    files
  }

  /** The records of unrecorded epochs, from their cuts. */
  private def drawn(from: Long, until: Long): Seq[EpochRecord] = {
    // A query that ran without history may have any number of cuts.
    val first = Math.max(from, until - MaxDrawn)
    (first until until).flatMap(cutOf(_)).map(EpochRecord.of(location, _))
  }

  private def put(records: Seq[EpochRecord], file: Array[Byte]): HistoryLayout.Of = {
    val name = HistoryLayout.file(
      records.head.epoch,
      records.map(_.epoch).max,
      StateVersion.newId(clock)
    )
    store.put(ObjectKey(name), file)
    HistoryLayout.parse(name).get
  }

  private def merge(
      parts: Seq[HistoryLayout.Of],
      files: mutable.ArrayBuffer[HistoryLayout.Of]
  ): Unit = {
    val bodies = parts.map(part => part -> store.get(ObjectKey(part.name)))
    val rows = bodies.flatMap { case (_, body) => body.toSeq.flatMap(HistoryFile.read) }
    val records = rows.flatMap(_.toOption)
    // A concurrent writer may have compacted them already, and a later release may have written
    // some.
    if (bodies.forall(_._2.isDefined) && records.size == rows.size) {
      val sorted = records.sortBy(record => (record.epoch, record.run.generation))
      files += put(sorted, HistoryFile.write(sorted))
      store.delete(parts.map(part => ObjectKey(part.name)))
      logger.info(s"Compacted ${parts.size} files of the history of $location to one")
    }
    files --= parts
  }
}

private object HistoryWriter {
  private val logger = LoggerFactory.getLogger(classOf[HistoryWriter])

  /** A file costs CPU time, which is negligible for many epochs of a tenth of a second. */
  private val FlushRecords = 64
  private val FlushNs = TimeUnit.MINUTES.toNanos(1)
  private val MergedFiles = 32

  /** As many as retained cuts by default. */
  private val MaxDrawn = 100L

  /** Files with a number of epochs in this range are compacted with each other. */
  final private case class Level(from: Long, until: Long) {
    def holds(epochs: Long): Boolean = epochs >= from && epochs < until
  }

  private val Levels = {
    val once = FlushRecords.toLong * MergedFiles / 2
    Seq(Level(0, once), Level(once, once * MergedFiles))
  }
}
