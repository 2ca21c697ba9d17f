package io.cleancut.protocol

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.scalatest.funsuite.AnyFunSuite
import io.cleancut.conf.{Capture, CaptureMode}

class DrainsSuite extends AnyFunSuite {
  private def ms(time: Long): Long = MILLISECONDS.toNanos(time)

  private val withInput = Capture(CaptureMode.Unaligned, None)
  private def without(intervalMs: Long) = withInput.copy(drainNs = Some(ms(intervalMs)))

  /** The time that stragglers may continue, in milliseconds, rounded to hundreds. */
  private def grantedMs(drains: Drains, capture: Capture): Int =
    (0 to 20000 by 100).indexWhere(age => !drains.mayContinue(capture, ms(age.toLong))) * 100

  test("an epoch with input is cut at once") {
    val drains = new Drains
    drains.recordEpoch(withInput, ms(5000))
    assert(grantedMs(drains, withInput) == 0)
  }

  test("an epoch without input continues as long as one with input without its stragglers") {
    val drains = new Drains
    drains.recordEpoch(withInput, ms(9000))
    drains.recordEpoch(withInput, ms(2300))
    assert(grantedMs(drains, without(0)) == 2300)
    drains.recordEpoch(without(0), ms(8000))
    assert(grantedMs(drains, without(0)) == 2300, "epochs without input do not count")
  }

  test("an epoch without input continues for at least a second, and until the next trigger") {
    val drains = new Drains
    assert(grantedMs(drains, without(0)) == 1000)
    drains.recordEpoch(withInput, ms(20))
    assert(grantedMs(drains, without(0)) == 1000)
    assert(grantedMs(drains, without(4000)) == 4000)
  }
}
