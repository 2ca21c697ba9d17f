package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.driver.ParkedRuns
import io.cleancut.testkit.Patience

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
    val runs = new ParkedRuns
    assert(runs.park("a") && !runs.park("a") && !runs.isWaiting("a"))
    assertFree(runs, "b")
    val waiting = new Thread(() => runs.await("a"))
    waiting.start()
    eventually(assert(runs.isWaiting("a")))
    assert(!runs.park("a") && runs.isWaiting("a"))
    runs.release("b")
    // The thread has checked its location again.
    eventually(assert(Settled(waiting.getState)))
    assert(waiting.isAlive && runs.isParked("a"))
    runs.release("a")
    waiting.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(!waiting.isAlive)
    assert(!runs.isParked("a") && !runs.isWaiting("a"))
    // Later checks of the same run do not wait.
    assertFree(runs, "a")
    assert(runs.park("a"))
  }

  test("a location that is released before its run arrives does not stop the run") {
    val runs = new ParkedRuns
    assert(runs.park("a"))
    runs.release("a")
    assertFree(runs, "a")
  }

  test("a run that is stopped while it waits ends, and the next one does not wait") {
    val runs = new ParkedRuns
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
    eventually(assert(runs.isWaiting("a")))
    waiting.interrupt()
    assert(interrupted.get(Patience.Seconds, TimeUnit.SECONDS))
    assert(!runs.isParked("a"))
    assertFree(runs, "a")
  }
}
