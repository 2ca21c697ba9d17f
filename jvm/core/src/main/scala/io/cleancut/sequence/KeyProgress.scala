package io.cleancut.sequence

/** Held rows up to `highest` have waited since `atMs` or later. */
final case class HeldMark(atMs: Long, highest: Long)

/**
 * The progress of a key: its state in addition to the held rows.
 *
 * @param last
 *   number up to which all rows are emitted or skipped; [[KeyProgress.None]] before the first
 * @param lowest
 *   lowest held number, if any
 * @param awaited
 *   predecessor of the lowest held number
 * @param highest
 *   highest held number, if any
 * @param dropped
 *   duplicate or late rows
 * @param gaps
 *   number of skipped gaps
 * @param timerMs
 *   time of the key's timer; 0 if there is none
 * @param marks
 *   ascending by number; the last one is at least the highest held number
 */
final class KeyProgress(
    var last: Long = KeyProgress.None,
    var held: Int = 0,
    var lowest: Long = 0,
    var awaited: Long = 0,
    var highest: Long = 0,
    var dropped: Long = 0,
    var gaps: Long = 0,
    var timerMs: Long = 0,
    var marks: Vector[HeldMark] = Vector.empty
) {
  def hasBegun: Boolean = last != KeyProgress.None

  /** Counts a row that is held from now on. */
  def hold(number: Long, previous: Long): Unit = {
    if (held == 0 || number < lowest) {
      lowest = number
      awaited = previous
    }
    if (held == 0 || number > highest) highest = number
    held += 1
  }

  /** Records since when a row waits, in time steps, which limits the number of marks. */
  def mark(number: Long, sinceMs: Long, timeoutMs: Long): Unit =
    if (marks.isEmpty || number > marks.last.highest) {
      // Rounds up: no gap is skipped before its timeout.
      val step = math.max(1, timeoutMs / KeyProgress.Steps)
      val atMs = math.floorDiv(sinceMs + step - 1, step) * step
      val joins = marks.nonEmpty &&
        (marks.last.atMs == atMs || marks.size == KeyProgress.MaxMarks)
      if (joins) marks = marks.init :+ marks.last.copy(highest = number)
      else marks = marks :+ HeldMark(atMs, number)
    }

  /** Removes marks of rows that are no longer held. */
  def prune(): Unit =
    if (held == 0) marks = Vector.empty
    else while (marks.nonEmpty && marks.head.highest <= last) marks = marks.tail

  /** The time since when the first gap holds rows back. */
  def waitingSinceMs: Option[Long] = {
    prune()
    marks.map(_.atMs).minOption
  }
}

object KeyProgress {

  /** Placeholder for a number, below all numbers of rows. */
  val None: Long = Long.MinValue

  private val Steps = 16
  // An infinite timeout.
  private val MaxMarks = 32

  def begun(rules: SequenceRules): KeyProgress =
    new KeyProgress(last = rules.first.fold(None)(_ - 1))
}
