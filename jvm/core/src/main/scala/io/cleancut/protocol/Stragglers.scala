package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.conf.CaptureMode

/**
 * The running tasks of an epoch that delay it. Lateness is measured by task and not by the age of
 * the epoch: Spark runs tasks in waves, and a task that waits for a slot is not late.
 *
 * A running task is a straggler once half of its operator's partitions have read all their input,
 * and it has run longer than twice their median and 200 ms longer than the median. Pure: the caller
 * passes the time in nanoseconds.
 *
 * The coordinator calls [[tick]] every few milliseconds under its lock. It only visits the
 * operators and the late tasks.
 */
final class Stragglers {
  import Stragglers._

  private val running = mutable.Map.empty[Long, Running]
  private val operators = mutable.Map.empty[Long, Operator]
  private val since = mutable.Map.empty[Long, Long]
  // The overtaken attempts, with the time of the request.
  private val passed = mutable.Map.empty[Long, Long]
  private var untaken = Vector.empty[Long]
  private var cutNs = Option.empty[Long]
  private var lastOnTime = Option.empty[Long]

  /**
   * A task attempt begins to read a shuffle input; it may read several. A task repeats this call,
   * like [[arrived]], if it has not received the response.
   */
  def started(attempt: Long, channel: StoreId, partitions: Int, nowNs: Long): Unit = {
    val StoreId(operator, partition, name) = channel
    val ofOperator = operators.getOrElseUpdate(operator, new Operator(partitions))
    val isNew = !running.contains(attempt)
    val task = running.getOrElseUpdate(attempt, new Running(operator, partition, nowNs))
    task.channels += name
    if (isNew && !passed.contains(attempt)) ofOperator.onTime += ((nowNs, attempt))
    cutNs.foreach(overtake(attempt, _))
  }

  /** The attempt has read a shuffle input to its end. */
  def arrived(attempt: Long, channel: StoreId, nowNs: Long): Unit =
    running.get(attempt).foreach { task =>
      task.channels -= channel.name
      if (task.channels.isEmpty) {
        operators(task.operator).arrived(task.partition, nowNs - task.startNs)
        if (!passed.contains(attempt)) lastOnTime = Some(nowNs)
        endAttempt(attempt)
      }
    }

  def endAttempt(attempt: Long): Unit = {
    running.remove(attempt).foreach { task =>
      operators(task.operator).onTime -= ((task.startNs, attempt))
    }
    since -= attempt
    ()
  }

  /** Overtakes every task from now on, including those that have not begun. */
  def cutNow(nowNs: Long): Unit = {
    cutNs = cutNs.orElse(Some(nowNs))
    for (operator <- operators.values; (_, attempt) <- operator.onTime.toVector)
      overtake(attempt, nowNs)
  }

  /** Checks the time; returns whether further attempts are overtaken. */
  def tick(mode: CaptureMode, nowNs: Long): Boolean = {
    val before = passed.size
    for (operator <- operators.values; attempt <- operator.late(nowNs)) {
      val first = since.getOrElseUpdate(attempt, nowNs)
      mode match {
        case CaptureMode.Aligned         => ()
        case CaptureMode.Unaligned       => overtake(attempt, nowNs)
        case CaptureMode.Auto(timeoutNs) =>
          if (nowNs - first >= timeoutNs) overtake(attempt, nowNs)
      }
    }
    passed.size > before
  }

  /** Attempts that have been overtaken. */
  def overtaken: collection.Set[Long] = passed.keySet

  /** The attempts that were overtaken since the last call. */
  def takeOvertaken(): Seq[Long] = {
    val attempts = untaken
    untaken = Vector.empty
    attempts
  }

  /** Time of the request to overtake an attempt. */
  def overtakenNs(attempt: Long): Option[Long] = passed.get(attempt)

  /** Time of the last arrival of a task that was not overtaken. */
  def lastOnTimeNs: Option[Long] = lastOnTime

  def isRunning: Boolean = running.nonEmpty

  private def overtake(attempt: Long, nowNs: Long): Unit =
    if (!passed.contains(attempt)) {
      passed(attempt) = nowNs
      untaken :+= attempt
      for (task <- running.get(attempt))
        operators(task.operator).onTime -= ((task.startNs, attempt))
    }
}

object Stragglers {
  private val MarginNs = 200L * 1000000L

  final private class Running(val operator: Long, val partition: Int, val startNs: Long) {
    val channels = mutable.Set.empty[String]
  }

  final private class Operator(partitions: Int) {
    private val ended = mutable.Set.empty[Int]
    private val durations = new UpperMedian

    /** The running attempts that are not overtaken, ordered by start time. */
    val onTime = mutable.TreeSet.empty[(Long, Long)]

    /** Only the first attempt at a partition counts. */
    def arrived(partition: Int, durationNs: Long): Unit =
      if (ended.add(partition)) durations.add(durationNs)

    /** The attempts that have run longer than the limit. */
    def late(nowNs: Long): Seq[Long] =
      if (durations.size == 0 || durations.size * 2 < partitions) Nil
      else {
        val median = durations.value
        val limitNs = Math.max(2 * median, median + MarginNs)
        onTime.iterator
          .takeWhile { case (startNs, _) => nowNs - startNs > limitNs }
          .map { case (_, attempt) => attempt }
          .toVector
      }
  }

  /** The median of the numbers added so far; of an even count, the larger of the middle two. */
  final private class UpperMedian {
    // The smaller half, rounded down, and the larger half.
    private val lower = mutable.PriorityQueue.empty[Long]
    private val upper = mutable.PriorityQueue.empty[Long](Ordering.Long.reverse)

    def size: Int = lower.size + upper.size

    def value: Long = upper.head

    def add(number: Long): Unit = {
      if (upper.nonEmpty && number < upper.head) lower += number else upper += number
      if (lower.size > size / 2) upper += lower.dequeue()
      else if (lower.size < size / 2) lower += upper.dequeue()
      ()
    }
  }
}
