package io.cleancut.coordinator.driver

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable

import io.cleancut.base.Clock
import io.cleancut.coordinator.Pace

/**
 * Keeps a query to its pace: after the commit of an epoch its thread pauses until the next epoch
 * may begin. Spark looks for new rows after the pause, so rows that arrive meanwhile do not wait
 * for another epoch.
 *
 * With a budget, the interval is the one at which the mean costs of the last epochs use up the
 * budget.
 */
final class EpochPace(clock: Clock) {
  import EpochPace._

  // All guarded by this.
  private var current = Pace.Free
  private val costs = mutable.Queue.empty[Double]
  private var beganNs = Option.empty[Long]
  private var isEnded = false

  def pace: Pace = synchronized(current)

  /** Applies immediately, also to an epoch that is being waited for. */
  def set(pace: Pace): Unit = synchronized {
    current = pace
    notifyAll()
  }

  /** Records the costs of an epoch in dollars. */
  def spent(dollars: Double): Unit = synchronized {
    costs += dollars
    if (costs.size > Remembered) costs.dequeue()
    ()
  }

  /** The interval that the budget requires; 0 without a budget or costs. */
  def budgetIntervalMs: Long = synchronized {
    val mean = if (costs.isEmpty) 0.0 else costs.sum / costs.size
    current.dollarsPerDay.fold(0L)(budget => (mean / budget * DayMs).toLong.min(MaxMs))
  }

  /** A run begins with its first epoch. */
  def startRun(): Unit = synchronized {
    isEnded = false
    beganNs = None
  }

  /** The run has ended. Ends all pauses. */
  def endRun(): Unit = synchronized {
    isEnded = true
    notifyAll()
  }

  /**
   * Pauses after the commit of an epoch. Returns when the next one may begin, or immediately if the
   * thread is interrupted; it stays interrupted then.
   */
  def pause(): Unit = synchronized {
    val committedNs = clock.monotonicNs()
    def leftNs = {
      val interval = MILLISECONDS.toNanos(Math.max(current.intervalMs, budgetIntervalMs))
      val due = Math.max(
        committedNs + MILLISECONDS.toNanos(current.minPauseMs),
        beganNs.fold(committedNs)(_ + interval)
      )
      due - clock.monotonicNs()
    }
    try while (!isEnded && leftNs > 0) waitFor(leftNs)
    catch { case _: InterruptedException => Thread.currentThread.interrupt() }
    beganNs = Some(clock.monotonicNs())
  }

  private def waitFor(ns: Long): Unit = {
    val ms = NANOSECONDS.toMillis(ns)
    wait(ms, (ns - MILLISECONDS.toNanos(ms)).toInt)
  }
}

private object EpochPace {
  private val DayMs = 24.0 * 3600 * 1000

  // One epoch in about ten writes bases and costs more.
  private val Remembered = 100

  // Limit of the interval that a budget sets: a query that pauses longer looks dead.
  private val MaxMs = 3600L * 1000
}
