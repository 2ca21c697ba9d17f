package io.cleancut.base

import java.security.SecureRandom
import java.util.concurrent.TimeUnit

/**
 * Time and randomness of the library. All code that waits, reads the time or creates IDs uses a
 * clock, so that tests and simulations can replace it; direct calls elsewhere are a style error.
 */
trait Clock {

  /** Wall-clock time in milliseconds since 1970-01-01 UTC. */
  def wallMs(): Long

  /** Monotonic time in nanoseconds, for durations only. */
  def monotonicNs(): Long

  /** `count` random bytes. */
  def randomBytes(count: Int): Array[Byte]

  /** Waits; an interrupt ends it with `InterruptedException`. */
  def sleep(duration: Long, unit: TimeUnit): Unit
}

object Clock {
  object System extends Clock {
    private val random = new SecureRandom
    override def wallMs(): Long = java.lang.System.currentTimeMillis()
    override def monotonicNs(): Long = java.lang.System.nanoTime()
    override def randomBytes(count: Int): Array[Byte] = {
      val bytes = new Array[Byte](count)
      random.nextBytes(bytes)
      bytes
    }
    override def sleep(duration: Long, unit: TimeUnit): Unit = unit.sleep(duration)
  }
}
