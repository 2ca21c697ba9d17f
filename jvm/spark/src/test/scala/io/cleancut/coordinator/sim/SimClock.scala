package io.cleancut.coordinator.sim

import java.util.concurrent.TimeUnit

import scala.util.Random

import io.cleancut.base.Clock

/** A clock that advances with the steps of the simulation and with each sleep. */
final class SimClock(random: Random, baton: Baton) extends Clock {
  private var nowNs = 0L

  override def wallMs(): Long = SimClock.StartMs + TimeUnit.NANOSECONDS.toMillis(monotonicNs())

  /** The current time; this call does not advance the clock. */
  def nowMs: Long = SimClock.StartMs + TimeUnit.NANOSECONDS.toMillis(nowNs)

  override def monotonicNs(): Long = {
    nowNs += TimeUnit.MICROSECONDS.toNanos(100)
    nowNs
  }

  override def randomBytes(count: Int): Array[Byte] = {
    val bytes = new Array[Byte](count)
    random.nextBytes(bytes)
    bytes
  }

  override def sleep(duration: Long, unit: TimeUnit): Unit = {
    baton.yieldNow()
    nowNs += unit.toNanos(duration)
  }
}

/**
 * The clock of one host.
 *
 * @param aheadMs
 *   offset of its wall clock from that of the object store, in milliseconds; negative if it is slow
 */
final class HostClock(time: Clock, val aheadMs: Long) extends Clock {
  override def wallMs(): Long = time.wallMs() + aheadMs
  override def monotonicNs(): Long = time.monotonicNs()
  override def randomBytes(count: Int): Array[Byte] = time.randomBytes(count)
  override def sleep(duration: Long, unit: TimeUnit): Unit = time.sleep(duration, unit)
}

private object SimClock {
  val StartMs = 1_800_000_000_000L
}
