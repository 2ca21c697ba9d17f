package io.cleancut.sequence

import java.util.{TreeSet => JTreeSet}

import scala.annotation.tailrec

import io.cleancut.error.Errors

/** A skipped gap: the number before it, and the start of the wait. */
final case class PassedGap(after: Long, sinceMs: Option[Long])

/**
 * Emits the rows of one key in sequence: held rows merged with the input, which is ordered by
 * number.
 *
 * While no row is missing, rows pass through. After the first gap all input is held, because it
 * cannot fill the gap. So held rows are only scanned when a gap is closed or skipped.
 *
 * One run processes one key once: call [[advance]] until it is false; then [[progress]] is the
 * start of the next run.
 *
 * @param input
 *   a row is valid until the next one is requested
 * @param nowMs
 *   time by the clock of the timeout
 * @param hasInFlight
 *   whether in-flight rows of the key will follow in a later epoch although they belong to this
 *   one. A gap is not judged then, because such a row may close it
 * @param key
 *   key for errors
 */
final class SequenceRun[R](
    rules: SequenceRules,
    val progress: KeyProgress,
    store: HeldRows[R],
    input: Iterator[R],
    rows: SequencedRows[R],
    nowMs: Long,
    hasInFlight: () => Boolean,
    key: () => String
) {
  import progress._

  private var head: Option[R] = scala.None
  private var gap: Option[PassedGap] = scala.None
  private var emitted: Option[R] = scala.None
  // The held numbers in order, once they are required.
  private var order: Option[JTreeSet[java.lang.Long]] = scala.None
  private var lastInput = KeyProgress.None

  /** Counts of this run. */
  var newlyDropped, newlyHeld, released, newGaps = 0L

  /** Whether a gap has exceeded its timeout and is still waited for. */
  var isOverdue = false

  // A gap is due, and the key has in-flight rows.
  private var isUnjudged = false

  /** The row to emit, after an [[advance]] that returned true. */
  def row: R = emitted.get

  /** The skipped gap before it. */
  def gapBefore: Option[PassedGap] = gap

  /**
   * Whether there is another row to emit.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEQUENCE_GAP, CLEANCUT_SEQUENCE_FULL, CLEANCUT_SEQUENCE_BROKEN
   */
  def advance(): Boolean = {
    gap = scala.None
    step()
  }

  /** The time of the key's timer, if one is required. */
  def dueMs: Option[Long] =
    for (timeout <- rules.timeoutMs; since <- waitingSinceMs)
      yield
        if (isOverdue) nowMs + timeout
        else if (isUnjudged) nowMs + 1
        else since + timeout

  @tailrec
  private def step(): Boolean =
    if (held > 0 && lowest <= last) {
      // Rows before a later start of the sequence.
      takeLowest()
      drop()
      step()
    } else if (held > 0 && awaited == last) {
      last = lowest
      released += 1
      emitted = Some(takeLowest())
      true
    } else
      nextOfInput() match {
        case Some(next) => if (meet(next)) true else step()
        case _          => if (skipIfDue()) step() else false
      }

  private def nextOfInput(): Option[R] = {
    if (head.isEmpty && input.hasNext) head = Some(input.next())
    head
  }

  /** Whether the row is emitted. If not, it may be processed again. */
  private def meet(next: R): Boolean = {
    val number = rows.number(next)
    val previous = rows.previous(next)
    if (previous >= number) broken(number, s"its predecessor is $previous")
    if (number <= last || number == lastInput || isHeld(number)) {
      head = scala.None
      drop()
      false
    } else if (previous == last) pass(next, number)
    else if (hasBegun && previous < last) {
      val why =
        if (previous == KeyProgress.None) "it has no predecessor"
        else s"its predecessor is $previous"
      broken(number, s"$why, and $last has been emitted")
    } else if (begins) {
      last = previous
      false
    } else if (held >= rules.maxHeld) {
      full(math.min(number, lowest))
      last = if (number < lowest) previous else awaited
      false
    } else {
      keep(next, number, previous)
      false
    }
  }

  /**
   * Whether the lowest input row is the first of the key, because no rule defines the first one.
   */
  private def begins: Boolean =
    !hasBegun && rules.timeoutMs.isEmpty && held == 0

  private def pass(next: R, number: Long): Boolean = {
    head = scala.None
    last = number
    lastInput = number
    emitted = Some(next)
    true
  }

  private def keep(next: R, number: Long, previous: Long): Unit = {
    head = scala.None
    lastInput = number
    store.put(number, next)
    hold(number, previous)
    order.foreach(_.add(number))
    rules.timeoutMs.foreach(mark(number, rows.since(next), _))
    newlyHeld += 1
  }

  private def isHeld(number: Long): Boolean =
    held > 0 && number >= lowest && number <= highest && store.has(number)

  private def drop(): Unit = {
    dropped += 1
    newlyDropped += 1
  }

  private def takeLowest(): R = {
    val all = order.getOrElse {
      val ordered = new JTreeSet[java.lang.Long]
      store.numbers.foreach(ordered.add(_))
      order = Some(ordered)
      ordered
    }
    val number = lowest
    val taken = store.get(number)
    store.remove(number)
    all.remove(number)
    held -= 1
    if (held > 0) {
      lowest = all.first
      awaited = if (rules.isDense) lowest - 1 else rows.previous(store.get(lowest))
    }
    taken
  }

  /** Whether there is a row to emit at the end of the input. */
  private def skipIfDue(): Boolean = {
    val since = if (held > 0) waitingSinceMs else scala.None
    val isDue = (for (timeout <- rules.timeoutMs; start <- since) yield start + timeout <= nowMs)
      .getOrElse(false)
    isUnjudged = isDue && hasInFlight()
    if (!isDue || isUnjudged) false
    else if (!hasBegun) {
      last = awaited
      true
    } else
      rules.onGap match {
        case OnGap.Wait =>
          isOverdue = true
          false
        case OnGap.Fail => throw Errors.sequenceGap(key(), last, lowest, since.get)
        case OnGap.Skip =>
          passGap(since)
          last = awaited
          true
      }
  }

  private def full(before: Long): Unit =
    if (!hasBegun || rules.onGap == OnGap.Skip) passGap(waitingSinceMs)
    else throw Errors.sequenceFull(key(), held, last, before)

  private def passGap(since: Option[Long]): Unit = if (hasBegun) {
    gap = Some(PassedGap(last, since))
    gaps += 1
    newGaps += 1
  }

  private def broken(number: Long, why: String): Nothing =
    throw Errors.sequenceBroken(key(), number.toString, why)
}
