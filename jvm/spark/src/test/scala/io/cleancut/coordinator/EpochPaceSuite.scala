package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.driver.EpochPace
import io.cleancut.testkit.{ManualClock, Patience}

/** The clock advances only in the tests, so an unwanted rest never ends. */
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

  /** Advances the clock and checks that a rest lasts exactly this long. */
  private def assertLasts(ms: Long, pace: EpochPace, clock: ManualClock): Unit = {
    val rest = resting(pace)
    clock.advance(ms - 1, TimeUnit.MILLISECONDS)
    Thread.sleep(2 * ms)
    assert(rest.isAlive)
    clock.advance(1, TimeUnit.MILLISECONDS)
    assertEnds(rest)
  }

  test("epochs follow each other without a pause by default") {
    val pace = new EpochPace(new ManualClock)
    (0 until 1000).foreach(_ => pace.pause())
  }

  test("a pause follows each epoch, and an interval separates two starts") {
    val clock = new ManualClock
    val pace = new EpochPace(clock)
    pace.set(Pace(Short, 0L, None))
    assertLasts(Short, pace, clock)
    pace.set(Pace(0L, Short, None))
    assertLasts(Short, pace, clock)
    clock.advance(Short, TimeUnit.MILLISECONDS)
    // The epoch has lasted as long as the interval.
    pace.pause()
  }

  test("a changed pace and the end of the run take effect at once") {
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

  test("an interrupted thread does not rest and stays interrupted") {
    val pace = new EpochPace(new ManualClock)
    pace.set(Pace(Forever, 0L, None))
    Thread.currentThread.interrupt()
    pace.pause()
    assert(Thread.interrupted())
  }

  test("a budget sets the interval by the cost of epochs") {
    val pace = new EpochPace(new ManualClock)
    pace.set(Pace(0L, 0L, Some(5.0)))
    assert(pace.budgetIntervalMs == 0L)
    // Each epoch costs a thousandth of a dollar, so five dollars pay for 5,000 epochs a day.
    for (_ <- 0 until 300) pace.spent(0.001)
    assert(pace.budgetIntervalMs == 17280L)
    for (_ <- 0 until 300) pace.spent(0.0)
    assert(pace.budgetIntervalMs == 0L)
    for (_ <- 0 until 300) pace.spent(100.0)
    assert(pace.budgetIntervalMs == 3600L * 1000)
  }
}
