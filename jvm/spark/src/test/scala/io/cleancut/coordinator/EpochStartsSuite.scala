package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.testkit.Patience

/** Epochs of a query are held back before their entry is written, and not while it is. */
class EpochStartsSuite extends AnyFunSuite {
  import EpochStartsSuite._

  test("who holds epochs back waits for an entry that is being written, and then none begins") {
    val starts = new EpochStarts
    starts.begin()
    val held = inThread(starts.hold())
    assert(isWaiting(held))
    starts.end(Some(4L))
    held.join()
    val next = inThread(starts.begin())
    assert(isWaiting(next))
    assert(!starts.isBehind(Some(3L)) && starts.isBehind(Some(4L)) && !starts.isBehind(None))
    starts.release()
    next.join()
    starts.end(None)
    assert(starts.isBehind(Some(4L)), "an entry that was not written is none")
  }

  test("a query that is stopped while it is held back ends") {
    val starts = new EpochStarts
    starts.hold()
    val interrupted = new CompletableFuture[Boolean]
    val waiting = new Thread(() =>
      try {
        starts.begin()
        interrupted.complete(false)
        ()
      } catch {
        case _: InterruptedException =>
          interrupted.complete(true)
          ()
      }
    )
    waiting.start()
    assert(isWaiting(interrupted))
    waiting.interrupt()
    assert(interrupted.get(SomeSeconds, TimeUnit.SECONDS))
    starts.release()
    starts.begin()
    starts.end(None)
  }

  test("what is there from before counts, and not for the run after it") {
    val starts = new EpochStarts
    assert(starts.isBehind(None))
    starts.runBegins()
    starts.recordListing(Some(7L))
    starts.recordListing(Some(6L))
    assert(!starts.isBehind(Some(6L)) && starts.isBehind(Some(7L)))
    starts.runEnded()
    assert(starts.isBehind(None))
    // A run that dies while it writes an entry holds nobody up.
    starts.begin()
    val held = inThread(starts.hold())
    assert(isWaiting(held))
    starts.runEnded()
    held.join()
    starts.end(Some(8L))
    starts.release()
  }

  test("a run that has not looked yet what is there may have planned an epoch") {
    val starts = new EpochStarts
    starts.runBegins()
    assert(!starts.isBehind(None) && !starts.isBehind(Some(6L)))
    starts.recordListing(None)
    assert(starts.isBehind(None))
    starts.runEnded()
    starts.runBegins()
    starts.recordListing(Some(7L))
    assert(!starts.isBehind(Some(6L)))
  }
}

object EpochStartsSuite {
  private val SomeSeconds = Patience.Seconds

  private def inThread(act: => Unit): CompletableFuture[Void] =
    CompletableFuture.runAsync(() => act)

  private def isWaiting(of: CompletableFuture[_]): Boolean = {
    Thread.sleep(100L)
    !of.isDone
  }
}
