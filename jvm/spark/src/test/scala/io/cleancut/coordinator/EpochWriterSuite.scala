package io.cleancut.coordinator

import java.util.concurrent.{CountDownLatch, ExecutionException, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.SingleRegistrations._
import io.cleancut.coordinator.state.Pipelining
import io.cleancut.error.Errors
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{CreateResult, ObjectKey, ObjectStore, WriterToken}
import io.cleancut.protocol.Refusal
import io.cleancut.testkit.Patience

/** Cuts and entries of the offset log that are written while epochs run. */
class EpochWriterSuite extends AnyFunSuite with CutsOnDisk {

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
    runTask(cuts, epoch)
  }

  private def runTask(cuts: QueryCoordinator, epoch: Long): Unit = {
    assert(cuts.open("r1", epoch, part(0), epoch).isRight)
    submit(cuts, "r1", frame(part(0), epoch + 1, epoch))
    ()
  }

  test("no task of an epoch that is not held is answered before its entry exists") {
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
    runTask(cuts, 1)
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

  test("a run records its end when its entry is written") {
    val cuts = afterSealed()
    val mayWrite = new CountDownLatch(1)
    @volatile var isWritten = false
    val done = cuts.plan("r1", 1) {
      if (!mayWrite.await(Patience.Seconds, TimeUnit.SECONDS)) fail("it was not released")
      isWritten = true
    }
    val ending = new Thread(() => cuts.endRun("r1"))
    ending.start()
    assert(!hasEnded)
    mayWrite.countDown()
    done.get(Patience.Seconds, TimeUnit.SECONDS)
    ending.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(isWritten && hasEnded)
  }

  test("tasks of a held epoch are answered before its entry exists, and write no frame") {
    val cuts = afterSealed()
    val mayWrite = new CountDownLatch(1)
    cuts.plan("r1", 1) {
      if (!mayWrite.await(Patience.Seconds, TimeUnit.SECONDS)) fail("it was not released")
    }
    tasks(cuts, 1)
    val ready = cuts.ready("r1", None, isToWrite = true)
    assert(cuts.ready("r1", Some(1)).isDone && !ready.isDone)
    assert(segments(1).isEmpty)
    mayWrite.countDown()
    assert(cuts.writer("r1").isRight && ready.isDone)
    cuts.seal("r1", 1)
    assert(segments(1).nonEmpty)
  }

  private def hasEnded = store.get(ObjectKey(CutLayout.endMarker(1L))).isDefined

  /** A driver that has committed epoch 0, sealed epoch 1, and committed that once released. */
  private def pipelining(
      mayWrite: CountDownLatch,
      around: ObjectStore => ObjectStore = identity
  ): QueryCoordinator = {
    val cuts = driver(around = under => around(new HeldCuts(under, mayWrite)))
    tasks(cuts, 0)
    cuts.commit("r1", 0, "v1\n{}")
    tasks(cuts, 1)
    cuts.seal("r1", 1)
    cuts.pipeline("r1", Pipelining.at(1))
    cuts
  }

  test("a cut is written while the next epoch runs, which is sealed after it") {
    val mayWrite = new CountDownLatch(1)
    val cuts = pipelining(mayWrite)
    @volatile var order = Seq.empty[String]
    cuts.enqueue("r1", 1, "v1\n{}")(_ => order :+= "cut 1")
    cuts.plan("r1", 2)(order :+= "entry 2")
    assert(archive.cuts.read(1).isEmpty && cuts.status.committed.contains(0L))
    tasks(cuts, 2)
    assert(order.isEmpty && segments(2).isEmpty)
    mayWrite.countDown()
    cuts.seal("r1", 2)
    assert(order == Seq("cut 1", "entry 2"))
    assert(archive.cuts.read(1).isDefined && cuts.status.committed.contains(1L))
    cuts.commit("r1", 2, "v1\n{}")
    assert(archive.cuts.read(2).isDefined)
  }

  test("a run that another run of its driver has followed plans no epoch before its cut exists") {
    val mayWrite = new CountDownLatch(1)
    val cuts = pipelining(mayWrite)
    cuts.enqueue("r1", 1, "v1\n{}")(_ => ())
    cuts.begin("r2")
    @volatile var isWritten = false
    val error = errorOf(cuts.plan("r1", 2) { isWritten = true })
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2"))
    assert(errorOf(cuts.record("r1") { isWritten = true }).getErrorId == "CLEANCUT_FENCED")
    mayWrite.countDown()
    assert(!isWritten)
  }

  test("the commit waits for the cut of the first epoch, and of one that is not pipelined") {
    val cuts = driver()
    for (number <- 0L to 2L) {
      if (number == 0) cuts.pipeline("r1", Pipelining.at(number))
      else cuts.pipeline("r1", Pipelining.off("it is off"))
      tasks(cuts, number)
      cuts.seal("r1", number)
      var isWritten = false
      cuts.enqueue("r1", number, "v1\n{}")(_ => isWritten = true)
      assert(isWritten && archive.cuts.read(number).isDefined)
    }
    assert(cuts.status.unpipelined.contains("it is off"))
  }

  test("an owner that began before the check after a cut ends the run before its next seal") {
    val mayWrite = new CountDownLatch(1)
    val cuts = pipelining(mayWrite)
    cuts.enqueue("r1", 1, "v1\n{}")(_ => fail("another run owns the query"))
    var isPlanned = false
    val planned = cuts.plan("r1", 2) { isPlanned = true }
    tasks(cuts, 2)
    val begun = driver().begin("r2")
    assert(begun.committed == 0L && !begun.isAlone)
    mayWrite.countDown()
    assert(errorOf(cuts.seal("r1", 2)).getMessage.contains("CLEANCUT_FENCED"))
    intercept[ExecutionException](planned.get(Patience.Seconds, TimeUnit.SECONDS))
    assert(!isPlanned)
    assert(segments(2).isEmpty)
    // The second run has not seen this cut, and adopts it.
    assert(archive.cuts.read(1).isDefined)
  }

  test("a run that another one of its driver has replaced is not idle") {
    val mayWrite = new CountDownLatch(1)
    val cuts = pipelining(mayWrite)
    cuts.enqueue("r1", 1, "v1\n{}")(_ => fail("another run owns the query"))
    assert(cuts.begin("r2").committed == 0L)
    assert(errorOf(cuts.awaitWrites("r1")).getMessage.contains("CLEANCUT_FENCED"))
    mayWrite.countDown()
    // A run that has not begun has nothing to wait for, and does not take ownership by that.
    cuts.awaitWrites("r3")
    assert(cuts.status.run.exists(_.runId == "r2"))
  }

  test("a driver that ends waits for the cut that is being written, up to a limit") {
    val mayWrite = new CountDownLatch(1)
    val cuts = pipelining(mayWrite)
    cuts.enqueue("r1", 1, "v1\n{}")(_ => ())
    cuts.awaitWrites(limitMs = 10)
    assert(archive.cuts.read(1).isEmpty)
    mayWrite.countDown()
    cuts.awaitWrites(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(archive.cuts.read(1).isDefined)
  }

  test("a run whose cut could not be written fails at its next call, and records no end") {
    val cuts = pipelining(new CountDownLatch(0), under => new RefusedCuts(under, epoch = 1))
    cuts.enqueue("r1", 1, "v1\n{}")(_ => fail("there is no cut"))
    val failure = errorOf(cuts.awaitWrites("r1"))
    assert(failure.getMessage.contains("refused"))
    assert(errorOf(cuts.checkWrites("r1")) eq failure)
    cuts.plan("r1", 2)(fail("the cut before does not exist"))
    tasks(cuts, 2)
    assert(cuts.writer("r1").isLeft && errorOf(cuts.seal("r1", 2)) == failure)
    cuts.endRun("r1")
    assert(!driver().begin("r2").isAlone)
  }
}

/** An object store that does not write cuts after the first before it may. */
final private class HeldCuts(under: ObjectStore, mayWrite: CountDownLatch)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    if (key.name.endsWith(".cut") && CutLayout.parseCut(key.name.split('/').last).exists(_ > 0L))
      assert(mayWrite.await(Patience.Seconds, TimeUnit.SECONDS))
    super.create(key, body, token)
  }
}

/** An object store that refuses the cut of an epoch. */
final private class RefusedCuts(under: ObjectStore, epoch: Long) extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (CutLayout.parseCut(key.name.split('/').last).contains(epoch))
      throw Errors.fenced("there", epoch, "refused")
    else super.create(key, body, token)
}
