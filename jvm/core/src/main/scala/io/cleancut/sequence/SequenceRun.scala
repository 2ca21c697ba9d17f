package io.cleancut.sequence

import java.util.{TreeSet => JTreeSet}

import scala.annotation.tailrec

import io.cleancut.error.Errors

/** A gap that has been given up: behind which number, and since when it was waited for. */
final case class PassedGap(after: Long, sinceMs: Option[Long])

/**
 * Hands on rows of one key in their sequence: what is held merged with what comes, which is in the
 * order of its numbers.
 *
 * As long as nothing is missing, rows pass through. Behind the first gap all that comes is held,
 * because none of it can fill the gap. So what is held is looked at row by row only where a gap is
 * closed or given up.
 *
 * One run is for one turn of one key: call [[advance]] until it is false; then [[progress]] is what
 * the next run begins with.
 *
 * @param input
 *   a row is good until the next one is asked for
 * @param nowMs
 *   by the clock of the timeout
 * @param hasInFlight
 *   whether rows of the key will follow in a later epoch although they belong to this one. A gap is
 *   not judged then, because such a row may close it.
 * @param key
 *   for errors
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
  private var handed: Option[R] = scala.None
  // What is held, once its order is asked for.
  private var order: Option[JTreeSet[java.lang.Long]] = scala.None
  private var lastInput = KeyProgress.None

  /** Of this run. */
  var newlyDropped, newlyHeld, released, newGaps = 0L

  /** Whether a gap has gone on for longer than it should, and is still waited for. */
  var isOverdue = false

  // A gap is due, and rows of the key are in flight.
  private var isUnjudged = false

  /** The row to hand on, behind an [[advance]] that was true. */
  def row: R = handed.get

  /** The gap before it. */
  def gapBefore: Option[PassedGap] = gap

  /**
   * Whether there is another row to hand on.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEQUENCE_GAP, CLEANCUT_SEQUENCE_FULL, CLEANCUT_SEQUENCE_BROKEN
   */
  def advance(): Boolean = {
    gap = scala.None
    step()
  }

  /** When a timer is to look at this key, if one is needed. */
  def dueMs: Option[Long] =
    for (timeout <- rules.timeoutMs; since <- waitingSinceMs)
      yield
        if (isOverdue) nowMs + timeout
        else if (isUnjudged) nowMs + 1
        else since + timeout

  @tailrec
  private def step(): Boolean =
    if (held > 0 && lowest <= last) {
      // What a later beginning has left behind.
      takeLowest()
      drop()
      step()
    } else if (held > 0 && awaited == last) {
      last = lowest
      released += 1
      handed = Some(takeLowest())
      true
    } else
      nextOfInput() match {
        case Some(next) => if (meet(next)) true else step()
        case _          => if (giveUpIfDue()) step() else false
      }

  private def nextOfInput(): Option[R] = {
    if (head.isEmpty && input.hasNext) head = Some(input.next())
    head
  }

  /** Whether the row is to be handed on. If not, it may be met again. */
  private def meet(next: R): Boolean = {
    val number = rows.number(next)
    val previous = rows.previous(next)
    if (previous >= number) broken(number, s"it follows on $previous")
    if (number <= last || number == lastInput || isHeld(number)) {
      head = scala.None
      drop()
      false
    } else if (previous == last) pass(next, number)
    else if (hasBegun && previous < last) {
      val why = if (previous == KeyProgress.None) "it has no predecessor" else s"follows $previous"
      broken(number, s"$why, and $last has been handed on")
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

  /** Whether the lowest of what has come is the first, because nothing else says what is. */
  private def begins: Boolean =
    !hasBegun && rules.timeoutMs.isEmpty && held == 0

  private def pass(next: R, number: Long): Boolean = {
    head = scala.None
    last = number
    lastInput = number
    handed = Some(next)
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
      val found = new JTreeSet[java.lang.Long]
      store.numbers.foreach(found.add(_))
      order = Some(found)
      found
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

  /** Whether there is something to hand on, now that nothing more comes. */
  private def giveUpIfDue(): Boolean = {
    val since = if (held > 0) waitingSinceMs else scala.None
    val isDue = (for (timeout <- rules.timeoutMs; of <- since) yield of + timeout <= nowMs)
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
