package io.cleancut.sequence

/** Up to `highest` all that is held has waited since `atMs` or later. */
final case class HeldMark(atMs: Long, highest: Long)

/**
 * How far a key has come; what its state keeps beside the rows that are held.
 *
 * @param last
 *   the number up to which all is done: handed on, or given up; [[KeyProgress.None]] before the
 *   first
 * @param lowest
 *   of what is held, if anything is
 * @param awaited
 *   the predecessor of the lowest
 * @param highest
 *   of what is held, if anything is
 * @param dropped
 *   rows that were there already, or came too late
 * @param gaps
 *   how many have been given up
 * @param timerMs
 *   when the key is looked at again; 0 if there is no timer
 * @param marks
 *   ascending by number, and so that the last one is at least the highest
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

  /** Counts in a row that is held from now on. */
  def hold(number: Long, previous: Long): Unit = {
    if (held == 0 || number < lowest) {
      lowest = number
      awaited = previous
    }
    if (held == 0 || number > highest) highest = number
    held += 1
  }

  /** Notes since when a row waits; in steps of time, so that there are few marks. */
  def mark(number: Long, sinceMs: Long, timeoutMs: Long): Unit =
    if (marks.isEmpty || number > marks.last.highest) {
      // Later rather than earlier: no gap is given up before its time.
      val step = math.max(1, timeoutMs / KeyProgress.Steps)
      val atMs = math.floorDiv(sinceMs + step - 1, step) * step
      val joins = marks.nonEmpty &&
        (marks.last.atMs == atMs || marks.size == KeyProgress.MaxMarks)
      if (joins) marks = marks.init :+ marks.last.copy(highest = number)
      else marks = marks :+ HeldMark(atMs, number)
    }

  /** Forgets marks of what is no longer held. */
  def prune(): Unit =
    if (held == 0) marks = Vector.empty
    else while (marks.nonEmpty && marks.head.highest <= last) marks = marks.tail

  /** Since when the first gap holds something back. */
  def waitingSinceMs: Option[Long] = {
    prune()
    marks.map(_.atMs).minOption
  }
}

object KeyProgress {

  /** In the place of a number: that of no row, and below all of them. */
  val None: Long = Long.MinValue

  private val Steps = 16
  // With a timeout that is waited for without end.
  private val MaxMarks = 32

  def begun(rules: SequenceRules): KeyProgress =
    new KeyProgress(last = rules.first.fold(None)(_ - 1))
}
