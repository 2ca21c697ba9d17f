package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.driver.{ParkedRun, ParkedRuns}
import io.cleancut.testkit.{ManualClock, Patience}

/** A run at a parked location waits until it is released or stopped. */
class ParkedRunsSuite extends AnyFunSuite with Patience {
  private val Settled = Set(Thread.State.WAITING, Thread.State.TERMINATED)

  /** No run waits at a location. */
  private def assertFree(runs: ParkedRuns, location: String): Unit = {
    CompletableFuture
      .runAsync(() => runs.await(location))
      .get(Patience.Seconds, TimeUnit.SECONDS)
    ()
  }

  test("a run waits until its location is released, and other locations are not parked") {
    val runs = new ParkedRuns(new ManualClock)
    assert(runs.park("a") && !runs.park("a") && runs.find("a").isEmpty)
    assertFree(runs, "b")
    val waiting = new Thread(() => runs.await("a"))
    waiting.start()
    eventually(assert(runs.find("a").isDefined))
    assert(!runs.park("a") && runs.find("a").isDefined)
    runs.release("b")
    // The thread has checked its location again.
    eventually(assert(Settled(waiting.getState)))
    assert(waiting.isAlive && runs.isParked("a"))
    runs.release("a")
    waiting.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(!waiting.isAlive)
    assert(!runs.isParked("a") && runs.find("a").isEmpty)
    // Later checks of the same run do not wait.
    assertFree(runs, "a")
    assert(runs.park("a"))
  }

  test("a run waits from its arrival, and may become a standby and a successor again") {
    val clock = new ManualClock
    val runs = new ParkedRuns(clock)
    assert(runs.park("a") && runs.park("b") && runs.all == Nil)
    runs.setStandby("a", isStandby = true)
    assert(runs.find("a").isEmpty)
    clock.advance(5, TimeUnit.SECONDS)
    val waiting = new Thread(() => runs.await("a"))
    waiting.start()
    eventually(assert(runs.all == Seq(ParkedRun("a", sinceMs = 5000))))
    clock.advance(1, TimeUnit.SECONDS)
    runs.setStandby("a", isStandby = true)
    assert(runs.find("a").contains(ParkedRun("a", sinceMs = 5000, isStandby = true)))
    runs.setStandby("a", isStandby = false)
    assert(runs.find("a").contains(ParkedRun("a", sinceMs = 5000)))
    runs.release("a")
    waiting.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(!waiting.isAlive && runs.all == Nil)
    runs.setStandby("a", isStandby = true)
    assert(!runs.isParked("a"))
  }

  test("a location that is released before its run arrives does not stop the run") {
    val runs = new ParkedRuns(new ManualClock)
    assert(runs.park("a"))
    runs.release("a")
    assertFree(runs, "a")
  }

  test("a run that is stopped while it waits ends, and the next one does not wait") {
    val runs = new ParkedRuns(new ManualClock)
    assert(runs.park("a"))
    val interrupted = new CompletableFuture[Boolean]
    val waiting = new Thread(() =>
      try {
        runs.await("a")
        interrupted.complete(false)
        ()
      } catch {
        case _: InterruptedException =>
          interrupted.complete(true)
          ()
      }
    )
    waiting.start()
    eventually(assert(runs.find("a").isDefined))
    waiting.interrupt()
    assert(interrupted.get(Patience.Seconds, TimeUnit.SECONDS))
    assert(!runs.isParked("a"))
    assertFree(runs, "a")
  }
}
