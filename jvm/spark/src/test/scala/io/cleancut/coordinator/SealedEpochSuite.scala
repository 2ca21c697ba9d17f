package io.cleancut.coordinator

import java.io.IOException
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.SealName
import io.cleancut.format.cut.{ChannelReport, RowsDigest}
import io.cleancut.objectstore.ObjectKey
import io.cleancut.protocol.{Ack, ChannelTask, Refusal}
import io.cleancut.coordinator.SingleRegistrations._

/** Epochs whose frames are held until their sink seals them, with one driver and with two. */
class SealedEpochSuite extends AnyFunSuite with CutsOnDisk {

  /** Runs the tasks of an epoch with two partitions while its frames are held. */
  private def held(cuts: QueryCoordinator, run: String, epoch: Long): Unit = {
    cuts.hold(run, epoch)
    for (p <- 0 to 1) {
      assert(cuts.open(run, epoch * 10 + p, part(p), epoch).isRight)
      assert(submit(cuts, run, frame(part(p), epoch + 1, epoch * 10 + p)) == Ack.Accepted)
    }
  }

  test("the frames of a sealed epoch are durable with the seal, in one object") {
    val cuts = driver()
    held(cuts, "r1", 0)
    assert(segments(0).isEmpty)
    cuts.seal("r1", 0)
    assert(segments(0).size == 1)
    // A second action on the batch runs the tasks again.
    val late = frame(part(1), 1, 9)
    assert(cuts.open("r1", 9, part(1), 0).isRight && submit(cuts, "r1", late) == Ack.Accepted)
    assert(segments(0).size == 2)
    cuts.commit("r1", 0, "v1\n{}")
    assert(archive.cuts.read(0).get.of(part(1)).exists(_.version == late.name.version))
    epoch(cuts, "r1", 1)
  }

  test("the frames of an epoch that its sink does not seal are durable before its commit") {
    val cuts = driver()
    held(cuts, "r1", 0)
    cuts.commit("r1", 0, "v1\n{}")
    assert(segments(0).size == 1 && archive.cuts.read(0).get.stores.size == 2)
  }

  test("an operator is aligned in each epoch that its sink does not seal, and reports the reason") {
    val cuts = driver()
    val capture = Capture(CaptureMode.Unaligned, None)
    def opened(epoch: Long, requested: Capture): Boolean = {
      cuts.alignedBecause("r1", Map.empty)
      mayDefer(cuts, epoch, 0, requested)
    }
    epoch(cuts, "r1", 0)
    cuts.hold("r1", 1)
    assert(opened(1, capture) && cuts.status.reasons.aligned.isEmpty)
    epoch(cuts, "r1", 1)
    assert(!opened(2, Capture.Off) && cuts.status.reasons.aligned.isEmpty)
    assert(!opened(2, capture) && cuts.status.reasons.aligned.keySet == Set(3L))
    assert(cuts.status.reasons.aligned(3L).contains("seal"))
  }

  test("a task that emitted all its rows before the hold stays aligned after it, with a reason") {
    val cuts = driver()
    val capture = Capture(CaptureMode.Unaligned, None)
    epoch(cuts, "r1", 0)
    // An action that reads a few rows runs the tasks of some partitions only.
    assert(!mayDefer(cuts, 1, 0, capture))
    cuts.hold("r1", 1)
    assert(!mayDefer(cuts, 1, 0, capture) && mayDefer(cuts, 1, 1, capture))
    assert(cuts.status.reasons.aligned.keySet == Set(3L))
    epoch(cuts, "r1", 1)
    cuts.hold("r1", 2)
    assert(mayDefer(cuts, 2, 0, capture))
  }

  test("the state of an epoch has the rows that were sealed, not those of an earlier action") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    val early = frame(part(0), 2, 7)
    assert(cuts.open("r1", 7, part(0), 1).isRight)
    assert(submit(cuts, "r1", early) == Ack.Accepted)
    held(cuts, "r1", 1)
    cuts.seal("r1", 1)
    cuts.commit("r1", 1, "v1\n{}")
    assert(archive.cuts.read(1).get.of(part(0)).get.version != early.name.version)
  }

  private var attempts = 100L

  /** Whether another attempt at a task of an operator that can be captured may defer rows. */
  private def mayDefer(
      cuts: QueryCoordinator,
      epoch: Long,
      partition: Int,
      requested: Capture
  ): Boolean = {
    attempts += 1
    val channel = StoreId(3L, partition, "cleancut-channel-0")
    val task = ChannelTask(attempts, channel, epoch, 2, "executor", requested)
    cuts.openChannel("r1", task).fold(no => sys.error(no.why), identity).mayDefer
  }

  test("an aligned first epoch of a run has no reason, because the sink seals") {
    val cuts = driver()
    cuts.hold("r1", 0)
    val channel = StoreId(3L, 0, "cleancut-channel-0")
    val capture = Capture(CaptureMode.Unaligned, None)
    val task = ChannelTask(1L, channel, 0L, 2, "executor", capture)
    assert(cuts.openChannel("r1", task).exists(!_.mayDefer))
    assert(cuts.status.reasons.aligned.isEmpty)
  }

  test("a frame that is sent twice while it is held is written once") {
    val cuts = driver()
    cuts.hold("r1", 0)
    val sent = frame(part(0), 1, 5)
    cuts.open("r1", 5, part(0), 0)
    for (_ <- 1 to 2) assert(submit(cuts, "r1", sent) == Ack.Accepted)
    cuts.seal("r1", 0)
    assert(archive.segments.ofEpoch(0).flatMap(_._2).map(_.name) == Seq(sent.name))
  }

  test("an epoch without a frame of each store is not sealed") {
    val cuts = driver()
    held(cuts, "r1", 0)
    cuts.open("r1", 7, part(2), 0)
    assert(errorOf(cuts.seal("r1", 0)).getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
  }

  test("a fenced driver cannot seal") {
    val first = driver()
    held(first, "r1", 0)
    epoch(driver(), "r2", 0)
    assert(errorOf(first.seal("r1", 0)).getErrorId == "CLEANCUT_FENCED")
  }

  test("a run that is fenced while it waits for its frames does not seal") {
    lazy val cuts: QueryCoordinator =
      new QueryCoordinator(archive, new Logs(None, 100), "host", TakeoverClock)
    object TakeoverClock extends Clock {
      override def wallMs(): Long = Clock.System.wallMs()
      override def monotonicNs(): Long = Clock.System.monotonicNs()
      override def randomBytes(count: Int): Array[Byte] = Clock.System.randomBytes(count)
      override def sleep(time: Long, unit: TimeUnit): Unit = {
        cuts.open("r2", 8, part(0), 0)
        ()
      }
    }
    held(cuts, "r1", 0)
    cuts.open("r1", 7, part(2), 0)
    val error = errorOf(cuts.seal("r1", 0))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2"))
  }

  /** Runs the tasks of an epoch with capture; the decision leaves no in-flight rows. */
  private def captured(cuts: QueryCoordinator, run: String, epoch: Long): Unit = {
    cuts.hold(run, epoch)
    val capture = Capture(CaptureMode.Unaligned, None)
    for (p <- 0 to 1) {
      val channel = StoreId(0L, p, "cleancut-channel-0")
      val task = ChannelTask(epoch * 10 + p, channel, epoch, 2, "executor", capture)
      assert(cuts.openChannel(run, task).exists(_.mayDefer))
      val nothing = new RowsDigest.Builder().result
      assert(cuts.arrived(run, task.attempt, ChannelReport(channel, nothing, nothing)).isRight)
    }
    held(cuts, run, epoch)
  }

  /** Two drivers with one epoch; the first has not found out that it is fenced. */
  private def rivals(isBlind: => Boolean = true): (QueryCoordinator, QueryCoordinator) = {
    val blind = new CutArchive(new StaleOwnerStore(store, () => isBlind), Clock.System)
    val first = new QueryCoordinator(blind, new Logs(None, 100), "host", Clock.System)
    epoch(first, "r1", 0)
    captured(first, "r1", 1)
    val second = driver()
    held(second, "r2", 1)
    (first, second)
  }

  test("of two seals of one epoch the later generation counts, whichever was written first") {
    val (zombie, successor) = rivals()
    successor.seal("r2", 1)
    zombie.seal("r1", 1)
    assert(archive.cuts.listed().sealOf(1).contains(SealName(1, 2)))
    successor.commit("r2", 1, "v1\n{}")
    assert(archive.cuts.read(1).exists(_.run.runId == "r2"))

    afterEach()
    beforeEach()
    val (first, second) = rivals()
    first.seal("r1", 1)
    second.seal("r2", 1)
    assert(archive.cuts.listed().sealOf(1).contains(SealName(1, 2)))
  }

  test("a seal of an earlier run does not count after a later run has claimed the epoch") {
    val (zombie, _) = rivals()
    // The sink of this run does not seal.
    val plain = driver()
    assert(plain.open("r3", 30, part(0), 1).isRight)
    zombie.seal("r1", 1)
    val names = archive.cuts.listed().seals.toSet
    assert(names == Set(SealName(1, 1), SealName(1, 3)))
    val later = driver()
    assert(!later.isDecidedBefore("r4", 1) && later.sealedOutput("r4", 1).isEmpty)
  }

  test("a run that has not seen a seal cannot replace the run that follows the seal") {
    val (first, unknowing) = rivals()
    first.seal("r1", 1)
    val follower = driver()
    assert(follower.open("r3", 30, part(0), 1).isRight)
    assert(errorOf(unknowing.seal("r2", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(archive.cuts.listed().seals.toSet == Set(SealName(1, 1), SealName(1, 2), SealName(1, 3)))
    assert(driver().isDecidedBefore("r4", 1))
  }

  test("a run that is fenced while it claims its first epoch runs no task") {
    var isBlind = true
    epoch(driver(), "r1", 0)
    val blind = new CutArchive(new StaleOwnerStore(store, () => isBlind), Clock.System)
    val followed = new QueryCoordinator(blind, new Logs(None, 100), "host", Clock.System)
    assert(followed.writer("r2").isRight)
    assert(driver().writer("r3").isRight)
    isBlind = false
    val refused = followed.open("r2", 1, part(0), 1).left.toOption.collect {
      case Refusal.Fenced(owner) => owner
    }
    assert(refused.exists(_.contains("r3")))
  }

  test("a run that emits rows of its first epoch before it seals claims the epoch once") {
    epoch(driver(), "r1", 0)
    val cuts = driver()
    assert(cuts.open("r2", 7, part(0), 1).isRight)
    held(cuts, "r2", 1)
    cuts.seal("r2", 1)
    cuts.commit("r2", 1, "v1\n{}")
    val seals = archive.cuts.listed().seals
    assert(
      seals == Seq(SealName(1, 2)) && archive.cuts
        .readSeal(seals.head, before = None)
        .exists(_.isClaim)
    )
    // No later epoch of the run writes a seal object.
    epoch(cuts, "r2", 2)
    assert(archive.cuts.listed().seals.size == 1)
  }

  test("a driver that is fenced just before its seal does not let its sink publish") {
    def isSealed = archive.cuts.listed().seals.nonEmpty
    val (zombie, _) = rivals(isBlind = !isSealed)
    assert(errorOf(zombie.seal("r1", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(isSealed, "the driver was fenced before the seal")
  }

  /** A run with one captured epoch, whose first ownership check after its seal object fails. */
  private def sealFailsOnce(): QueryCoordinator = {
    var failures = 0
    def fail(key: ObjectKey): Boolean = synchronized {
      val isDue =
        failures == 0 && key.name.contains("owners/") && archive.cuts.listed().seals.nonEmpty
      if (isDue) failures += 1
      isDue
    }
    val unsteady = new ForwardingStore(store) {
      override def get(key: ObjectKey): Option[Array[Byte]] =
        if (fail(key)) throw Errors.objectStoreUnavailable("GET", key.name, 1, 0L, new IOException)
        else super.get(key)
    }
    val cuts =
      new QueryCoordinator(
        new CutArchive(unsteady, Clock.System),
        new Logs(None, 100),
        "host",
        Clock.System
      )
    epoch(cuts, "r1", 0)
    captured(cuts, "r1", 1)
    intercept[CleancutException](cuts.seal("r1", 1, Some("staged")))
    assert(failures == 1 && archive.cuts.listed().seals == Seq(SealName(1, 1)))
    cuts
  }

  test("a seal that failed after its object was created can be repeated") {
    val cuts = sealFailsOnce()
    cuts.seal("r1", 1, Some("staged"))
    cuts.commit("r1", 1, "v1\n{}")
    assert(archive.cuts.read(1).get.stores.nonEmpty)
  }

  test("a repeated seal of another result ends the run, because the object cannot be replaced") {
    val error = errorOf(sealFailsOnce().seal("r1", 1, Some("staged again")))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("another result"))
  }

  test("a garbage collection keeps the seal of an epoch until the epoch has a cut") {
    val background = new LinkedBlockingQueue[Runnable]
    def collectGarbage(): Unit = {
      assert(!background.isEmpty)
      Iterator.continually(background.poll()).takeWhile(_ != null).foreach(_.run())
    }
    val usual = CutsRuntime.onThreads(store, Clock.System)
    val runtime = usual.copy(background = background.put(_), sweepEpochs = 1L)
    val cuts = new QueryCoordinator(archive, new Logs(None, 1), "host", runtime)
    for (e <- 0L to 2L) epoch(cuts, "r1", e)
    captured(cuts, "r1", 3)
    cuts.seal("r1", 3)
    collectGarbage()
    assert(archive.cuts.listed().seals == Seq(SealName(3, 1)))
    cuts.commit("r1", 3, "v1\n{}")
    collectGarbage()
    assert(archive.cuts.listed().seals.isEmpty)
  }

  test("if a driver dies before the seal, the epoch runs again") {
    val first = driver()
    held(first, "r1", 0)
    val second = driver()
    held(second, "r2", 0)
    second.seal("r2", 0)
    second.commit("r2", 0, "v1\n{}")
    assert(archive.cuts.read(0).get.stores.size == 2)
  }
}
