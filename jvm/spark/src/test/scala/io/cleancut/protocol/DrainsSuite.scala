package io.cleancut.protocol

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.scalatest.funsuite.AnyFunSuite
import io.cleancut.conf.{Capture, CaptureMode}

class DrainsSuite extends AnyFunSuite {
  private def ms(time: Long): Long = MILLISECONDS.toNanos(time)

  private val withInput = Capture(CaptureMode.Unaligned, None)
  private def without(intervalMs: Long) = withInput.copy(drainNs = Some(ms(intervalMs)))

  /** For how many milliseconds stragglers are let go on, to the nearest hundred. */
  private def letMs(drains: Drains, capture: Capture): Int =
    (0 to 20000 by 100).indexWhere(age => !drains.mayContinue(capture, ms(age.toLong))) * 100

  test("an epoch with input is cut as ever") {
    val drains = new Drains
    drains.recordEpoch(withInput, ms(5000))
    assert(letMs(drains, withInput) == 0)
  }

  test("one that only drains goes on as long as one with input takes without its stragglers") {
    val drains = new Drains
    drains.recordEpoch(withInput, ms(9000))
    drains.recordEpoch(withInput, ms(2300))
    assert(letMs(drains, without(0)) == 2300)
    drains.recordEpoch(without(0), ms(8000))
    assert(letMs(drains, without(0)) == 2300, "epochs that drain are no measure of others")
  }

  test("it goes on for a second at least, and to the next trigger") {
    val drains = new Drains
    assert(letMs(drains, without(0)) == 1000)
    drains.recordEpoch(withInput, ms(20))
    assert(letMs(drains, without(0)) == 1000)
    assert(letMs(drains, without(4000)) == 4000)
  }
}
