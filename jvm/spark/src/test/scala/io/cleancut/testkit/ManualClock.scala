package io.cleancut.testkit

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import io.cleancut.base.Clock

/** A clock that advances only by `advance` and `sleep`. */
class ManualClock extends Clock {
  private val ns = new AtomicLong

  /** The current time; this call is not counted as a read of the clock. */
  def nowNs: Long = ns.get

  def advance(duration: Long, unit: TimeUnit): Unit = {
    ns.addAndGet(unit.toNanos(duration))
    ()
  }

  override def wallMs(): Long = TimeUnit.NANOSECONDS.toMillis(nowNs)
  override def monotonicNs(): Long = nowNs
  override def randomBytes(count: Int): Array[Byte] = Clock.System.randomBytes(count)
  override def sleep(duration: Long, unit: TimeUnit): Unit = advance(duration, unit)
}
