package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.driver.EpochPace
import io.cleancut.testkit.{ManualClock, Patience}

/** The clock moves only when a test says so: an unwanted rest never ends. */
class EpochPaceSuite extends AnyFunSuite {
  private val Forever = 60_000L
  private val Short = 200L

  /** Starts a rest in a separate thread, and returns when that thread waits. */
  private def resting(pace: EpochPace): Thread = {
    val thread = new Thread(() => pace.pause())
    thread.setDaemon(true)
    thread.start()
    while (thread.getState != Thread.State.TIMED_WAITING) Thread.sleep(1)
    thread
  }

  private def assertEnds(rest: Thread): Unit = {
    rest.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    if (rest.isAlive) fail("the rest does not end")
  }

  /** Advances the clock to the end of a rest, which lasts until then and not longer. */
  private def assertLasts(ms: Long, pace: EpochPace, clock: ManualClock): Unit = {
    val rest = resting(pace)
    clock.advance(ms - 1, TimeUnit.MILLISECONDS)
    Thread.sleep(2 * ms)
    assert(rest.isAlive)
    clock.advance(1, TimeUnit.MILLISECONDS)
    assertEnds(rest)
  }

  test("epochs follow each other at once where nothing is asked") {
    val pace = new EpochPace(new ManualClock)
    (0 until 1000).foreach(_ => pace.pause())
  }

  test("a pause is kept after each epoch, and an interval between two beginnings") {
    val clock = new ManualClock
    val pace = new EpochPace(clock)
    pace.set(Pace(Short, 0L, None))
    assertLasts(Short, pace, clock)
    pace.set(Pace(0L, Short, None))
    assertLasts(Short, pace, clock)
    clock.advance(Short, TimeUnit.MILLISECONDS)
    // The epoch has taken the interval itself.
    pace.pause()
  }

  test("another pace holds at once, and so does the end of the run") {
    val pace = new EpochPace(new ManualClock)
    pace.set(Pace(Forever, 0L, None))
    val changed = resting(pace)
    pace.set(Pace.Free)
    assertEnds(changed)
    pace.set(Pace(Forever, 0L, None))
    val over = resting(pace)
    pace.endRun()
    assertEnds(over)
  }

  test("who is interrupted does not rest, and still is") {
    val pace = new EpochPace(new ManualClock)
    pace.set(Pace(Forever, 0L, None))
    Thread.currentThread.interrupt()
    pace.pause()
    assert(Thread.interrupted())
  }

  test("a budget buys an interval by what epochs cost") {
    val pace = new EpochPace(new ManualClock)
    pace.set(Pace(0L, 0L, Some(5.0)))
    assert(pace.budgetIntervalMs == 0L)
    // A thousandth of a dollar each, of which five dollars buy 5,000 a day.
    for (_ <- 0 until 300) pace.spent(0.001)
    assert(pace.budgetIntervalMs == 17280L)
    for (_ <- 0 until 300) pace.spent(0.0)
    assert(pace.budgetIntervalMs == 0L)
    for (_ <- 0 until 300) pace.spent(100.0)
    assert(pace.budgetIntervalMs == 3600L * 1000)
  }
}
