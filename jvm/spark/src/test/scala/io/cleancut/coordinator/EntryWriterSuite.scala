package io.cleancut.coordinator

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.SingleRegistrations._
import io.cleancut.error.Errors
import io.cleancut.protocol.Refusal
import io.cleancut.testkit.Patience

/** Entries of the offset log that are written while the first steps of their epochs run. */
class EntryWriterSuite extends AnyFunSuite with CutsOnDisk {

  /** A driver that has sealed and committed epoch 0. */
  private def afterSealed(): QueryCoordinator = {
    val cuts = driver()
    tasks(cuts, 0)
    cuts.seal("r1", 0)
    cuts.commit("r1", 0, "v1\n{}")
    cuts
  }

  private def tasks(cuts: QueryCoordinator, epoch: Long): Unit = {
    cuts.hold("r1", epoch)
    assert(cuts.open("r1", epoch, part(0), epoch).isRight)
    submit(cuts, "r1", frame(part(0), epoch + 1, epoch))
    ()
  }

  test("no task of an epoch is answered, and no seal returns, before its entry exists") {
    val cuts = afterSealed()
    val mayWrite = new CountDownLatch(1)
    @volatile var isWritten = false
    val done = cuts.plan("r1", 1) {
      assert(mayWrite.await(Patience.Seconds, TimeUnit.SECONDS))
      isWritten = true
    }
    val ready = cuts.ready("r1", Some(1))
    assert(!done.isDone && !ready.isDone && !isWritten)
    // Tasks of the last epoch may run again.
    assert(cuts.ready("r1", Some(0)).isDone && cuts.ready("r1", None).isDone)
    mayWrite.countDown()
    tasks(cuts, 1)
    assert(isWritten && ready.isDone)
    cuts.seal("r1", 1)
    cuts.commit("r1", 1, "v1\n{}")
    assert(archive.cuts.read(1).isDefined)
  }

  test("the entry is written before `plan` returns, unless the run has sealed the epoch before") {
    val cuts = driver()
    for (number <- 0L to 2L) {
      var isWritten = false
      cuts.plan("r1", number) { isWritten = true }
      assert(isWritten)
      epoch(cuts, "r1", number)
    }
  }

  test("an epoch whose entry could not be written is not sealed and not committed") {
    val cuts = afterSealed()
    val failure = Errors.fenced("there", 1L, "run r2")
    val done = cuts.plan("r1", 1)(throw failure)
    done.handle[Unit]((_, _) => ()).get(Patience.Seconds, TimeUnit.SECONDS)
    cuts.ready("r1", Some(1)).get(Patience.Seconds, TimeUnit.SECONDS)
    val refused = cuts.open("r1", 1, part(0), 1)
    assert(refused.left.exists {
      case Refusal.Failed(why) => why.contains("run r2")
      case _                   => false
    })
    assert(errorOf(cuts.seal("r1", 1)) eq failure)
    assert(errorOf(cuts.commit("r1", 1, "v1\n{}")) eq failure)
    assert(archive.cuts.read(1).isEmpty)
  }

  test("a run does not record its end while an entry is being written") {
    val cuts = afterSealed()
    val mayWrite = new CountDownLatch(1)
    val done = cuts.plan("r1", 1) {
      if (!mayWrite.await(Patience.Seconds, TimeUnit.SECONDS)) fail("it was not released")
    }
    cuts.endRun("r1")
    assert(!driver().begin("r2").isAlone)
    mayWrite.countDown()
    done.get(Patience.Seconds, TimeUnit.SECONDS)
  }
}
