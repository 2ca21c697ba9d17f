package io.cleancut.sequence

import scala.collection.immutable.TreeMap
import scala.collection.mutable

/** A row with its number, that of its predecessor, and its arrival time. */
final case class Numbered(number: Long, previous: Long, atMs: Long)

/** An emitted row, and the number after which the gap before it begins. */
final case class EmittedRow(number: Long, gapAfter: Option[Long])

/** The result of an epoch for one key. */
final case class EpochResult(rows: Seq[EmittedRow], dropped: Long, gaps: Long, isOverdue: Boolean) {

  /** Adds the result of the epoch's in-flight rows, which determine whether a gap is overdue. */
  def ++(later: EpochResult): EpochResult =
    EpochResult(rows ++ later.rows, dropped + later.dropped, gaps + later.gaps, later.isOverdue)
}

/** The error that a query must fail with. */
final case class MustFail(id: String) extends Exception(id)

/**
 * A reference implementation of a sequence: one map has all rows that have arrived and were not
 * emitted, and every step scans it.
 */
final class SequenceModel(rules: SequenceRules) {
  private var last: Option[Long] = rules.first.map(_ - 1)
  private var held = TreeMap.empty[Long, Numbered]
  private val step = rules.timeoutMs.fold(1L)(timeoutMs => math.max(1, timeoutMs / 16))

  def heldNumbers: Seq[Long] = held.keys.toSeq

  def epoch(rows: Seq[Numbered], nowMs: Long): EpochResult = {
    val emitted = mutable.Buffer.empty[EmittedRow]
    var gap: Option[Long] = None
    var dropped, gaps = 0L

    def follows(row: Numbered): Boolean =
      last.fold(row.previous == KeyProgress.None)(_ == row.previous)
    def emit(row: Numbered): Unit = {
      emitted += EmittedRow(row.number, gap)
      gap = None
      last = Some(row.number)
      held -= row.number
    }
    def release(): Unit = while (held.nonEmpty && follows(held.head._2)) emit(held.head._2)
    def skipTo(row: Numbered): Unit = {
      if (last.isDefined) {
        gaps += 1
        if (gap.isEmpty) gap = last
      }
      last = Some(row.previous)
    }

    release()
    for (row <- rows.sortBy(_.number))
      if (last.exists(row.number <= _) || held.contains(row.number)) dropped += 1
      else {
        if (last.isEmpty && rules.timeoutMs.isEmpty && row.previous != KeyProgress.None)
          last = Some(row.previous)
        while (!follows(row) && held.size >= rules.maxHeld) {
          if (last.isDefined && rules.onGap != OnGap.Skip) throw MustFail("CLEANCUT_SEQUENCE_FULL")
          skipTo(Seq(row, held.head._2).minBy(_.number))
          release()
        }
        if (follows(row)) {
          emit(row)
          release()
        } else held += row.number -> row
      }
    var isOverdue = false
    while (!isOverdue && isDue(nowMs))
      if (last.isEmpty || rules.onGap == OnGap.Skip) {
        skipTo(held.head._2)
        release()
      } else if (rules.onGap == OnGap.Fail) throw MustFail("CLEANCUT_SEQUENCE_GAP")
      else isOverdue = true
    EpochResult(emitted.toSeq, dropped, gaps, isOverdue)
  }

  /** Rows wait from the end of the time step in which they have arrived. */
  private def isDue(nowMs: Long): Boolean = held.nonEmpty && rules.timeoutMs.exists { timeout =>
    val since = held.values.map(row => math.floorDiv(row.atMs + step - 1, step) * step).min
    since + timeout <= nowMs
  }
}
