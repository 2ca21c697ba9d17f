package io.cleancut.objectstore

import java.io.IOException
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.s3.{Attempt, RetryLoop, RetryPolicy, Verdict}

/** The retry loop with a clock that advances only by sleeps. */
class RetryLoopSuite extends AnyFunSuite {
  private class SleepingClock extends Clock {
    val pausesMs: mutable.Buffer[Long] = mutable.Buffer.empty
    override def wallMs(): Long = 0
    override def monotonicNs(): Long = pausesMs.sum * 1000000
    override def randomBytes(count: Int): Array[Byte] = Clock.System.randomBytes(count)
    override def sleep(duration: Long, unit: TimeUnit): Unit = pausesMs += unit.toMillis(duration)
  }

  private def loop(clock: Clock, policy: RetryPolicy, verdict: Verdict = Verdict.Retry(0)) =
    new RetryLoop(policy, clock, new RequestCounter, _ => verdict)

  private val failing: Attempt => Nothing = _ => throw new IOException("broken")

  test("pauses double with jitter up to the maximum") {
    val clock = new SleepingClock
    val policy = RetryPolicy(deadlineMs = 60000, firstPauseMs = 100, maxPauseMs = 1000)
    intercept[CleancutException](loop(clock, policy)(RequestKind.Put, "a")(failing))
    val steps = Seq(100, 200, 400, 800, 1000, 1000)
    clock.pausesMs.zip(steps).foreach { case (pauseMs, stepMs) =>
      assert(pauseMs > stepMs / 2 && pauseMs <= stepMs, clock.pausesMs)
    }
    assert(clock.pausesMs.distinct.size > 5)
  }

  test("the loop fails before a pause that would exceed the deadline") {
    val clock = new SleepingClock
    val thrown = intercept[CleancutException](
      loop(clock, RetryPolicy(1000))(RequestKind.Put, "s3://b/q/a")(failing)
    )
    assert(clock.pausesMs.sum < 1000 && clock.pausesMs.nonEmpty)
    assert(thrown.params.toMap.apply("attempts").toInt == clock.pausesMs.size + 1)
    assert(thrown.getCause.getMessage == "broken")
  }

  test("a requested pause beyond the deadline ends the request at once") {
    val clock = new SleepingClock
    intercept[CleancutException](
      loop(clock, RetryPolicy(1000), Verdict.Retry(5000))(RequestKind.Put, "a")(failing)
    )
    assert(clock.pausesMs.isEmpty)
  }

  test("the error of a nested request is not classified again") {
    // Earlier, a store that was unavailable while a create read the owner was reported as refused.
    val clock = new SleepingClock
    val outer = loop(clock, RetryPolicy(1000), Verdict.Refuse("unknown"))
    val thrown = intercept[CleancutException](
      outer(RequestKind.Create, "a")(_ =>
        loop(clock, RetryPolicy(500))(RequestKind.Head, "a")(failing)
      )
    )
    assert(thrown.getErrorId == "CLEANCUT_OBJECT_STORE_UNAVAILABLE")
  }

  test("each attempt receives the remaining time") {
    val clock = new SleepingClock
    val seen = mutable.Buffer.empty[Attempt]
    val result = loop(clock, RetryPolicy(60000))(RequestKind.Put, "a") { attempt =>
      seen += attempt
      if (attempt.number < 4) throw new IOException("broken") else "done"
    }
    assert(result == "done" && seen.map(_.number) == Seq(1, 2, 3, 4))
    assert(seen.map(_.remainingMs) == clock.pausesMs.scanLeft(60000L)(_ - _))
  }

  test("an interrupt does not count as a failure of the store") {
    val clock = new SleepingClock
    val interrupted = loop(clock, RetryPolicy(1000), Verdict.Interrupted)
    intercept[InterruptedException](interrupted(RequestKind.Put, "a")(failing))
    assert(clock.pausesMs.isEmpty)
  }
}
