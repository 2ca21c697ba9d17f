package io.cleancut.cutstore

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.format.Proof
import io.cleancut.testkit.ManualClock

/** Reads of restore tests and replicas for metrics, in the background. */
class NotesWatchSuite extends AnyFunSuite {
  private val clock = new ManualClock
  private val waiting = mutable.Queue.empty[Runnable]
  private var scans = 0
  private var stored = () => Notes(Nil, Nil)
  private val watch = new NotesWatch(
    () => {
      scans += 1
      stored()
    },
    clock,
    task => waiting.enqueue(task)
  )

  private def proof(epoch: Long, provenMs: Long) = f"$epoch%020d-$provenMs%020d.json"

  private def proven = watch.last.flatMap(_.proven)

  private def runScans(): Unit = while (waiting.nonEmpty) waiting.dequeue().run()

  test("a background scan reads the records at most once per minute") {
    stored =
      () => Notes(Seq(proof(7, 100), proof(12, 50), proof(12, 60), proof(3, 900), "other"), Nil)
    assert(watch.last.isEmpty && watch.last.isEmpty)
    assert(waiting.size == 1)
    runScans()
    assert(proven.contains(Proof(12, 60)))
    clock.advance(NotesWatch.EveryNs - 1, NANOSECONDS)
    assert(watch.last.isDefined && waiting.isEmpty)
    clock.advance(1, NANOSECONDS)
    stored = () => Notes(Seq(proof(20, 1000)), Nil)
    assert(proven.contains(Proof(12, 60)))
    runScans()
    assert(proven.contains(Proof(20, 1000)) && scans == 2)
    // An unavailable store does not change the result.
    clock.advance(NotesWatch.EveryNs, NANOSECONDS)
    stored = () => throw new IllegalStateException("the store is unavailable")
    watch.last
    runScans()
    assert(proven.contains(Proof(20, 1000)) && scans == 3)
  }
}
