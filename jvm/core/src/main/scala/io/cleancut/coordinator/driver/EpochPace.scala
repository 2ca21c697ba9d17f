package io.cleancut.coordinator.driver

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable

import io.cleancut.base.Clock
import io.cleancut.coordinator.Pace

/**
 * Keeps a query to its pace: after the commit of an epoch its thread rests until the next one may
 * begin. Spark looks for new rows behind that, so none that come meanwhile wait for another epoch.
 *
 * With a budget the interval is that at which epochs of the last ones' mean costs come to it.
 */
final class EpochPace(clock: Clock) {
  import EpochPace._

  // All guarded by this.
  private var asked = Pace.Free
  private val costs = mutable.Queue.empty[Double]
  private var beganNs = Option.empty[Long]
  private var isEnded = false

  def pace: Pace = synchronized(asked)

  /** It holds at once, also for an epoch that is waited for. */
  def set(pace: Pace): Unit = synchronized {
    asked = pace
    notifyAll()
  }

  /** An epoch has cost so much, in dollars. */
  def spent(dollars: Double): Unit = synchronized {
    costs += dollars
    if (costs.size > Remembered) costs.dequeue()
    ()
  }

  /** What the budget makes of the interval; 0 where there is none, or nothing costs. */
  def boughtMs: Long = synchronized {
    val mean = if (costs.isEmpty) 0.0 else costs.sum / costs.size
    asked.dollarsPerDay.fold(0L)(budget => (mean / budget * DayMs).toLong.min(MaxMs))
  }

  /** A run begins, and its first epoch with it. */
  def begins(): Unit = synchronized {
    isEnded = false
    beganNs = None
  }

  /** The run has ended, and nobody rests. */
  def ended(): Unit = synchronized {
    isEnded = true
    notifyAll()
  }

  /**
   * An epoch is committed. Returns when the next one may begin, and at once where the thread is
   * interrupted, which it still is then.
   */
  def rest(): Unit = synchronized {
    val committedNs = clock.monotonicNs()
    def leftNs = {
      val interval = MILLISECONDS.toNanos(Math.max(asked.intervalMs, boughtMs))
      val due = Math.max(
        committedNs + MILLISECONDS.toNanos(asked.minPauseMs),
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

  // Bases come once in some ten epochs, and cost more.
  private val Remembered = 100

  // Whatever a budget says, a query that stands still for longer is taken for a dead one.
  private val MaxMs = 3600L * 1000
}
