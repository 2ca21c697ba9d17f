package io.cleancut.channels

import scala.collection.mutable

import io.cleancut.StoreId

/**
 * Which running tasks of an epoch hold it up. Lateness is judged by task and not by the age of the
 * epoch: Spark runs tasks in waves, and one that waits for a slot is not late.
 *
 * A running task is a straggler once half of its operator's partitions have read all their input,
 * and it has run longer than twice their median, and 200 ms longer. Pure: it is told the time, in
 * nanoseconds of any origin.
 */
final class Stragglers {
  import Stragglers._

  private val running = mutable.LinkedHashMap.empty[Long, Running]
  private val operators = mutable.Map.empty[Long, Operator]
  private val since = mutable.Map.empty[Long, Long]
  // With the time of the order.
  private val passed = mutable.LinkedHashMap.empty[Long, Long]
  private var cutNs = Option.empty[Long]
  private var lastOnTime = Option.empty[Long]

  /**
   * A task attempt begins to read a channel; it may read several. Who has not heard the answer says
   * it again, of this as of [[arrived]].
   */
  def started(attempt: Long, channel: StoreId, partitions: Int, nowNs: Long): Unit = {
    val StoreId(operator, partition, name) = channel
    val task = running.getOrElseUpdate(attempt, new Running(operator, partition, nowNs))
    task.channels += name
    operators.getOrElseUpdate(operator, new Operator(partitions))
    cutNs.foreach(passed.getOrElseUpdate(attempt, _))
    ()
  }

  /** It has read all of a channel. */
  def arrived(attempt: Long, channel: StoreId, nowNs: Long): Unit =
    running.get(attempt).foreach { task =>
      task.channels -= channel.name
      if (task.channels.isEmpty) {
        operators(task.operator).durations.getOrElseUpdate(task.partition, nowNs - task.startNs)
        if (!passed.contains(attempt)) lastOnTime = Some(nowNs)
        ended(attempt)
      }
    }

  def ended(attempt: Long): Unit = {
    running -= attempt
    since -= attempt
    ()
  }

  /** Every task is overtaken from now on, also those that have not begun. */
  def cutNow(nowNs: Long): Unit = {
    cutNs = cutNs.orElse(Some(nowNs))
    running.keys.foreach(passed.getOrElseUpdate(_, nowNs))
  }

  /** Looks at the time; whether more attempts than before are overtaken. */
  def tick(mode: CaptureMode, nowNs: Long): Boolean = {
    val before = passed.size
    for ((attempt, task) <- running if !passed.contains(attempt) && isLate(task, nowNs)) {
      val first = since.getOrElseUpdate(attempt, nowNs)
      mode match {
        case CaptureMode.Aligned         => ()
        case CaptureMode.Unaligned       => passed(attempt) = nowNs
        case CaptureMode.Auto(timeoutNs) => if (nowNs - first >= timeoutNs) passed(attempt) = nowNs
      }
    }
    passed.size > before
  }

  /** Attempts that have been overtaken. */
  def overtaken: collection.Set[Long] = passed.keySet

  /** When the order was given that an attempt be overtaken. */
  def overtakenNs(attempt: Long): Option[Long] = passed.get(attempt)

  /** When the last task arrived that was not overtaken. */
  def lastOnTimeNs: Option[Long] = lastOnTime

  def isRunning: Boolean = running.nonEmpty

  private def isLate(task: Running, nowNs: Long): Boolean = {
    val operator = operators(task.operator)
    operator.limitNs.exists(limit => nowNs - task.startNs > limit)
  }
}

object Stragglers {
  private val MarginNs = 200L * 1000000L

  final private class Running(val operator: Long, val partition: Int, val startNs: Long) {
    val channels = mutable.Set.empty[String]
  }

  final private class Operator(partitions: Int) {
    val durations = mutable.Map.empty[Int, Long]

    def limitNs: Option[Long] = Option.when(durations.size * 2 >= partitions) {
      val sorted = durations.values.toArray.sorted
      val median = sorted(sorted.length / 2)
      Math.max(2 * median, median + MarginNs)
    }
  }
}
