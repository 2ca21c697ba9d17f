package io.cleancut.cutstore

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.format.Proof
import io.cleancut.testkit.ManualClock

/** What metrics tell of what others have noted, without a wait. */
class NotesWatchSuite extends AnyFunSuite {
  private val clock = new ManualClock
  private val waiting = mutable.Queue.empty[Runnable]
  private var looks = 0
  private var found = () => Notes(Nil, Nil)
  private val watch = new NotesWatch(
    () => {
      looks += 1
      found()
    },
    clock,
    task => waiting.enqueue(task)
  )

  private def proof(epoch: Long, provenMs: Long) = f"$epoch%020d-$provenMs%020d.json"

  private def proven = watch.last.flatMap(_.proven)

  private def look(): Unit = while (waiting.nonEmpty) waiting.dequeue().run()

  test("what is told is looked for beside, once a minute at most") {
    found =
      () => Notes(Seq(proof(7, 100), proof(12, 50), proof(12, 60), proof(3, 900), "other"), Nil)
    assert(watch.last.isEmpty && watch.last.isEmpty)
    assert(waiting.size == 1)
    look()
    assert(proven.contains(Proof(12, 60)))
    clock.advance(NotesWatch.EveryNs - 1, NANOSECONDS)
    assert(watch.last.isDefined && waiting.isEmpty)
    clock.advance(1, NANOSECONDS)
    found = () => Notes(Seq(proof(20, 1000)), Nil)
    assert(proven.contains(Proof(12, 60)))
    look()
    assert(proven.contains(Proof(20, 1000)) && looks == 2)
    // A store that is away takes nothing back.
    clock.advance(NotesWatch.EveryNs, NANOSECONDS)
    found = () => throw new IllegalStateException("the store is away")
    watch.last
    look()
    assert(proven.contains(Proof(20, 1000)) && looks == 3)
  }
}
