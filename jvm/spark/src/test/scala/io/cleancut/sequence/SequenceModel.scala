package io.cleancut.sequence

import scala.collection.immutable.TreeMap
import scala.collection.mutable

/** A row of the tests: its number, the one before, and when it came. */
final case class Numbered(number: Long, previous: Long, atMs: Long)

/** What a row was handed on with: the gap before it. */
final case class HandedOn(number: Long, gapAfter: Option[Long])

/** What an epoch comes to, for one key. */
final case class EpochResult(rows: Seq[HandedOn], dropped: Long, gaps: Long, isOverdue: Boolean) {

  /** With the result of in-flight rows of the epoch, which decide whether a gap is overdue. */
  def ++(later: EpochResult): EpochResult =
    EpochResult(rows ++ later.rows, dropped + later.dropped, gaps + later.gaps, later.isOverdue)
}

/** Why a query must fail. */
final case class MustFail(id: String) extends Exception(id)

/**
 * What a sequence is, said once more in few words: all that has come and is not done lies in one
 * map, with the time of each row, and every step looks at all of it.
 */
final class SequenceModel(rules: SequenceRules) {
  private var last: Option[Long] = rules.first.map(_ - 1)
  private var held = TreeMap.empty[Long, Numbered]
  private val step = rules.timeoutMs.fold(1L)(of => math.max(1, of / 16))

  def heldNumbers: Seq[Long] = held.keys.toSeq

  def epoch(rows: Seq[Numbered], nowMs: Long): EpochResult = {
    val found = mutable.Buffer.empty[HandedOn]
    var gap: Option[Long] = None
    var dropped, gaps = 0L

    def follows(row: Numbered): Boolean =
      last.fold(row.previous == KeyProgress.None)(_ == row.previous)
    def handOn(row: Numbered): Unit = {
      found += HandedOn(row.number, gap)
      gap = None
      last = Some(row.number)
      held -= row.number
    }
    def release(): Unit = while (held.nonEmpty && follows(held.head._2)) handOn(held.head._2)
    def goOnAt(row: Numbered): Unit = {
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
          goOnAt(Seq(row, held.head._2).minBy(_.number))
          release()
        }
        if (follows(row)) {
          handOn(row)
          release()
        } else held += row.number -> row
      }
    var isOverdue = false
    while (!isOverdue && isDue(nowMs))
      if (last.isEmpty || rules.onGap == OnGap.Skip) {
        goOnAt(held.head._2)
        release()
      } else if (rules.onGap == OnGap.Fail) throw MustFail("CLEANCUT_SEQUENCE_GAP")
      else isOverdue = true
    EpochResult(found.toSeq, dropped, gaps, isOverdue)
  }

  /** Rows wait from the end of the step of time in which they have come. */
  private def isDue(nowMs: Long): Boolean = held.nonEmpty && rules.timeoutMs.exists { timeout =>
    val since = held.values.map(row => math.floorDiv(row.atMs + step - 1, step) * step).min
    since + timeout <= nowMs
  }
}
