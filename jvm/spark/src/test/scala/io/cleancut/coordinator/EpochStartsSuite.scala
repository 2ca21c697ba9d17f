package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.testkit.Patience

/**
 * Epochs of a query are held back before their offset entry is written, and not during the write.
 */
class EpochStartsSuite extends AnyFunSuite {
  import EpochStartsSuite._

  test("a hold waits for an entry that is being written, and then no epoch begins") {
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
    assert(starts.isBehind(Some(4L)), "an entry that was not written does not count")
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

  test("entries from before the run count, and not for the run after it") {
    val starts = new EpochStarts
    assert(starts.isBehind(None))
    starts.runBegins()
    starts.recordListing(Some(7L))
    starts.recordListing(Some(6L))
    assert(!starts.isBehind(Some(6L)) && starts.isBehind(Some(7L)))
    starts.runEnded()
    assert(starts.isBehind(None))
    // A run that dies while it writes an entry blocks no hold.
    starts.begin()
    val held = inThread(starts.hold())
    assert(isWaiting(held))
    starts.runEnded()
    held.join()
    starts.end(Some(8L))
    starts.release()
  }

  test("a run that has not read its offset log yet may have planned an epoch") {
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

  private def inThread(body: => Unit): CompletableFuture[Void] =
    CompletableFuture.runAsync(() => body)

  private def isWaiting(future: CompletableFuture[_]): Boolean = {
    Thread.sleep(100L)
    !future.isDone
  }
}
