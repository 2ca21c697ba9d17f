package io.cleancut.cuts

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.ManualClock
import io.cleancut.format.Proof

/** What metrics tell of proofs, without a wait. */
class ProofWatchSuite extends AnyFunSuite {
  private val clock = new ManualClock
  private val waiting = mutable.Queue.empty[Runnable]
  private var looks = 0
  private var found = () => Seq.empty[Proof]
  private val watch = new ProofWatch(
    () => {
      looks += 1
      found()
    },
    clock,
    task => waiting.enqueue(task)
  )

  private def look(): Unit = while (waiting.nonEmpty) waiting.dequeue().run()

  test("what is told is looked for beside, once a minute at most") {
    found = () => Seq(Proof(7, 100), Proof(12, 50), Proof(12, 60), Proof(3, 900))
    assert(watch.last.isEmpty && watch.last.isEmpty)
    assert(waiting.size == 1)
    look()
    assert(watch.last.contains(Proof(12, 60)))
    clock.advance(ProofWatch.EveryNs - 1, NANOSECONDS)
    assert(watch.last.isDefined && waiting.isEmpty)
    clock.advance(1, NANOSECONDS)
    found = () => Seq(Proof(20, 1000))
    assert(watch.last.contains(Proof(12, 60)))
    look()
    assert(watch.last.contains(Proof(20, 1000)) && looks == 2)
    // A store that is away takes nothing back.
    clock.advance(ProofWatch.EveryNs, NANOSECONDS)
    found = () => throw new IllegalStateException("the store is away")
    watch.last
    look()
    assert(watch.last.contains(Proof(20, 1000)) && looks == 3)
  }
}
