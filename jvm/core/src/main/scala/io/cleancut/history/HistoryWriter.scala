package io.cleancut.history

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.slf4j.LoggerFactory

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix, ObjectStore}

/**
 * Keeps the history of a query beside its cuts, longer than these. For one thread at a time.
 *
 * Records are written some at a time, so that a file costs a request for many epochs, or for those
 * of a minute. What a driver that dies has not written yet is drawn from the cuts that are kept, by
 * the run that follows it: less than these tell of their epochs, but of each. Files that have
 * become many are put together into one, which is there before they are deleted; so a reader, or a
 * rival, may find a record twice, and never none.
 *
 * @param location
 *   of the query's checkpoint
 * @param cutOf
 *   reads the cut of an epoch; None if there is none
 * @param keepMs
 *   how old files may become, by the clock of the store
 * @param keptCuts
 *   of how many epochs the query keeps the cuts: no more wait to be written
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

  /** An epoch behind those that were added before. */
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
   * Writes what has been added.
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
      val ofLevel = files.filter(of => level.holds(of.last - of.first + 1)).toSeq
      if (ofLevel.size >= MergedFiles) merge(ofLevel, files)
    }

  /** Finds out what there is; a listing. */
  private def begin(next: Long): mutable.ArrayBuffer[HistoryLayout.Of] = {
    val listed = store.list(ObjectPrefix(HistoryLayout.Directory)).toVector
    val oldest = clock.wallMs() - keepMs
    val (over, kept) = listed.partition(_.modifiedMs < oldest)
    store.delete(over.map(_.key).filter(key => HistoryLayout.parse(key.name).isDefined))
    val files = mutable.ArrayBuffer.from(kept.flatMap(info => HistoryLayout.parse(info.key.name)))
    // A query that was rolled back goes on behind an epoch that is not the last of them.
    val before = files.map(_.last).filter(_ < next)
    last =
      if (files.exists(of => of.first <= next && of.last >= next)) next - 1
      else before.maxOption.getOrElse(-1L)
    known = Some(files)
    files
  }

  /** What cuts tell of epochs that nobody has noted. */
  private def drawn(from: Long, until: Long): Seq[EpochRecord] = {
    // A query that ran without a history may have any number of them.
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
    val bodies = parts.map(of => of -> store.get(ObjectKey(of.name)))
    val rows = bodies.flatMap { case (_, body) => body.toSeq.flatMap(HistoryFile.read) }
    val records = rows.flatMap(_.toOption)
    // A rival may have put them together already, and a later release may have written some.
    if (bodies.forall(_._2.isDefined) && records.size == rows.size) {
      val sorted = records.sortBy(record => (record.epoch, record.run.generation))
      files += put(sorted, HistoryFile.write(sorted))
      store.delete(parts.map(of => ObjectKey(of.name)))
      logger.info(s"${parts.size} files of the history of $location are one")
    }
    files --= parts
  }
}

private object HistoryWriter {
  private val logger = LoggerFactory.getLogger(classOf[HistoryWriter])

  /** A file costs processors what many epochs of a tenth of a second do not notice. */
  private val FlushRecords = 64
  private val FlushNs = TimeUnit.MINUTES.toNanos(1)
  private val MergedFiles = 32

  /** As many as are kept of cuts by default. */
  private val MaxDrawn = 100L

  /** Files of about so many epochs are put together with each other. */
  final private case class Level(from: Long, until: Long) {
    def holds(epochs: Long): Boolean = epochs >= from && epochs < until
  }

  private val Levels = {
    val once = FlushRecords.toLong * MergedFiles / 2
    Seq(Level(0, once), Level(once, once * MergedFiles))
  }
}
