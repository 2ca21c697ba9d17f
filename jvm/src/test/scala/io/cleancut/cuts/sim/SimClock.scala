package io.cleancut.cuts.sim

import java.util.concurrent.TimeUnit

import scala.util.Random

import io.cleancut.Clock

/** Time passes with the steps of the simulation, and when somebody sleeps. */
final class SimClock(random: Random, baton: Baton) extends Clock {
  private var nowNs = 0L

  override def wallMs(): Long = SimClock.StartMs + TimeUnit.NANOSECONDS.toMillis(monotonicNs())

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

private object SimClock {
  val StartMs = 1_800_000_000_000L
}
