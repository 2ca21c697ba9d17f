package io.cleancut.cuts

import java.util.concurrent.{ExecutionException, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.{Clock, StateVersion, StoreId}
import io.cleancut.channels._
import io.cleancut.error.CleancutException
import io.cleancut.format._
import io.cleancut.objects.{ObjectKey, RequestKind}
import io.cleancut.testkit.StoreOnDisk

/** The coordinator of a query, on the local disk. */
class QueryCutsSuite extends AnyFunSuite with StoreOnDisk {
  private class Logs(plain: Option[Long], keep: Int) extends SparkLogs {
    override def queryId(): Option[String] = Some("query")
    override def offsets(epoch: Long): String = s"offsets of $epoch"
    override def lastPlainCommit(): Option[Long] = plain
    override def epochsToKeep: Int = keep
  }

  private def archive = new CutArchive(store, Clock.System)

  private def driver(plain: Option[Long] = None, keep: Int = 100): QueryCuts =
    new QueryCuts(archive, new Logs(plain, keep), "host", Clock.System)

  private def part(partition: Int, name: String = "default") = StoreId(0L, partition, name)

  private def frame(
      store: StoreId,
      version: Long,
      attempt: Long,
      kind: FrameKind = FrameKind.Delta
  ): SealedFrame = {
    val name = FrameName(store, StateVersion(version, StateVersion.newId(Clock.System)), kind)
    SealedFrame(name, attempt, s"$store $version".getBytes)
  }

  private def submit(driver: QueryCuts, run: String, frame: SealedFrame): Ack =
    driver.submit(run, frame).get.get(20, TimeUnit.SECONDS)

  private def report(driver: QueryCuts, run: String, frame: PlacedFrame): Ack =
    driver.report(run, frame).get(20, TimeUnit.SECONDS)

  /** An epoch of two partitions. */
  private def epoch(driver: QueryCuts, run: String, epoch: Long): Unit = {
    for (p <- 0 to 1) {
      assert(driver.open(run, epoch * 10 + p, part(p), epoch).isRight)
      assert(submit(driver, run, frame(part(p), epoch + 1, epoch * 10 + p)) == Ack.Accepted)
    }
    driver.commit(run, epoch, s"v1\n{\"e\":$epoch}")
  }

  private def errorOf(body: => Any): CleancutException = intercept[CleancutException](body)

  test("an epoch is a cut that names what its tasks wrote") {
    val first = driver()
    for (e <- 0L to 2L) epoch(first, "r1", e)
    val cut = archive.read(2).get
    assert(cut.commit == "v1\n{\"e\":2}" && cut.offsets == "offsets of 2")
    assert(cut.run == RunId(Some("query"), "r1", 1))
    assert(cut.stores.map(_.frames.map(_._2.number)) == Seq(Seq(1L, 2L, 3L), Seq(1L, 2L, 3L)))
    for (stores <- cut.stores; (_, version, place) <- stores.frames) {
      val object_ = store.get(ObjectKey(place.segment)).get
      val found = object_.slice(place.offset.toInt, (place.offset + place.length).toInt)
      assert(new String(found) == s"${stores.store} ${version.number}")
    }
    assert(store.get(ObjectKey("format.json")).isDefined)
  }

  test("what a task attempt reports twice counts once, and what comes late is not believed") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    val again = archive.segmentsOf(0).flatMap(_._2).head
    assert(report(cuts, "r1", again).isInstanceOf[Ack.Unknown])
    val open = frame(part(0), 2, 77)
    for (sent <- Seq(open, frame(part(1), 2, 78)))
      assert(submit(cuts, "r1", sent) == Ack.Accepted)
    val placed = archive.segmentsOf(1).flatMap(_._2).head
    assert(report(cuts, "r1", placed) == Ack.Duplicate)
    assert(cuts.open("r1", 78, part(0), 5).isLeft)
  }

  test("an epoch that lacks a store is not committed, and the error names it") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    cuts.open("r1", 5, part(0), 1)
    submit(cuts, "r1", frame(part(0), 2, 5))
    val error = errorOf(cuts.commit("r1", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    assert(error.getMessage.contains(part(1).toString))
    assert(archive.epochs() == Seq(0L))
  }

  private def segments(epoch: Long) = archive.segmentsOf(epoch)

  test("a task whose epoch lacks a store does not wait, and the last one waits for all") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 1)
    assert(submit(cuts, "r1", frame(part(0), 2, 10)) == Ack.Accepted)
    assert(segments(1).isEmpty && cuts.status.epoch.get.reported == 1)
    assert(submit(cuts, "r1", frame(part(1), 2, 11)) == Ack.Accepted)
    assert(segments(1).map(_._2.size) == Seq(2))
    // Tasks that run again, for a second action, have nobody to wait for them.
    cuts.open("r1", 12, part(0), 1)
    assert(submit(cuts, "r1", frame(part(0), 2, 12)) == Ack.Accepted)
    assert(segments(1).size == 2)
    cuts.commit("r1", 1, "v1\n{}")
  }

  test("a frame that an executor wrote may be the last one too") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 1)
    submit(cuts, "r1", frame(part(0), 2, 10))
    val large = SegmentPacker.writeSegment(store, "3", Clock.System) _
    val placed = large(SegmentIdentity(1, "3", "r1", 1), Seq(frame(part(1), 2, 11))).head
    assert(segments(1).size == 1)
    assert(report(cuts, "r1", placed) == Ack.Accepted)
    assert(segments(1).size == 2)
    // The driver dies now, and the sink skips the epoch.
    driver().commit("r2", 1, "v1\n{}")
    assert(archive.read(1).get.stores.map(_.version.number) == Seq(2L, 2L))
  }

  test("the first epoch, of which nobody knows the stores, is durable task by task") {
    val cuts = driver()
    for (p <- 0 to 1) {
      cuts.open("r1", p.toLong, part(p), 0)
      submit(cuts, "r1", frame(part(p), 1, p.toLong))
      assert(segments(0).size == p + 1)
    }
  }

  test("the last task fails if what others left cannot be written, and its retry writes it") {
    var fails = true
    val runtime = CutsRuntime.onThreads(store, Clock.System)
    val failing = new FramePacker {
      override def trySubmit(run: SegmentIdentity, frame: SealedFrame) =
        runtime.packer.trySubmit(run, frame)
      override def write(run: SegmentIdentity, frames: Seq[SealedFrame]) =
        if (fails) throw new IllegalStateException("no space")
        else runtime.packer.write(run, frames)
      override def written: WriteCounts = runtime.packer.written
      override def close(): Unit = runtime.packer.close()
    }
    val cuts = new QueryCuts(archive, new Logs(None, 9), "host", runtime.copy(packer = failing))
    epoch(cuts, "r1", 0)
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 1)
    submit(cuts, "r1", frame(part(0), 2, 10))
    val error = intercept[ExecutionException](submit(cuts, "r1", frame(part(1), 2, 11)))
    assert(error.getCause.getMessage == "no space")
    fails = false
    cuts.open("r1", 12, part(1), 1)
    val retried = frame(part(1), 2, 12)
    assert(submit(cuts, "r1", retried) == Ack.Accepted)
    assert(segments(1).flatMap(_._2).map(_.attempt).toSet == Set(10L, 11L, 12L))
    cuts.commit("r1", 1, "v1\n{}")
    assert(archive.read(1).get.of(part(1)).get.version == retried.name.version)
  }

  /** An epoch of two partitions, whose tasks run while its frames are held. */
  private def held(cuts: QueryCuts, run: String, epoch: Long): Unit = {
    cuts.hold(run, epoch)
    for (p <- 0 to 1) {
      assert(cuts.open(run, epoch * 10 + p, part(p), epoch).isRight)
      assert(submit(cuts, run, frame(part(p), epoch + 1, epoch * 10 + p)) == Ack.Accepted)
    }
  }

  test("the frames of an epoch that is sealed are durable with the seal, in one object") {
    val cuts = driver()
    held(cuts, "r1", 0)
    assert(segments(0).isEmpty)
    cuts.seal("r1", 0)
    assert(segments(0).size == 1)
    // A second action on the batch runs tasks again.
    val late = frame(part(1), 1, 9)
    assert(cuts.open("r1", 9, part(1), 0).isRight && submit(cuts, "r1", late) == Ack.Accepted)
    assert(segments(0).size == 2)
    cuts.commit("r1", 0, "v1\n{}")
    assert(archive.read(0).get.of(part(1)).exists(_.version == late.name.version))
    epoch(cuts, "r1", 1)
  }

  test("an epoch whose sink does not seal after all is durable before it is committed") {
    val cuts = driver()
    held(cuts, "r1", 0)
    cuts.commit("r1", 0, "v1\n{}")
    assert(segments(0).size == 1 && archive.read(0).get.stores.size == 2)
  }

  test("an operator is aligned, and says why, in each epoch that its sink does not seal") {
    val cuts = driver()
    val capture = Capture(CaptureMode.Unaligned, None)
    def opened(epoch: Long, asked: Capture): Boolean = {
      cuts.alignedBecause("r1", Map.empty)
      val channel = StoreId(3L, 0, "cleancut-channel-0")
      val task = ChannelTask(epoch * 10 + 7, channel, epoch, 2, "executor", asked)
      cuts.openChannel("r1", task).fold(sys.error, identity).mayDefer
    }
    epoch(cuts, "r1", 0)
    assert(!opened(1, capture) && cuts.status.aligned.keySet == Set(3L))
    assert(cuts.status.aligned(3L).contains("seal"))
    cuts.hold("r1", 1)
    assert(opened(1, capture) && cuts.status.aligned.isEmpty)
    epoch(cuts, "r1", 1)
    assert(!opened(2, Capture.Off) && cuts.status.aligned.isEmpty)
    assert(!opened(2, capture) && cuts.status.aligned.nonEmpty)
  }

  test("the first epoch of a run whose sink seals gives no reason for what is no rule") {
    val cuts = driver()
    cuts.hold("r1", 0)
    val channel = StoreId(3L, 0, "cleancut-channel-0")
    val capture = Capture(CaptureMode.Unaligned, None)
    val task = ChannelTask(1L, channel, 0L, 2, "executor", capture)
    assert(cuts.openChannel("r1", task).exists(!_.mayDefer))
    assert(cuts.status.aligned.isEmpty)
  }

  test("a frame that is sent twice while it is held is written once") {
    val cuts = driver()
    cuts.hold("r1", 0)
    val sent = frame(part(0), 1, 5)
    cuts.open("r1", 5, part(0), 0)
    for (_ <- 1 to 2) assert(submit(cuts, "r1", sent) == Ack.Accepted)
    cuts.seal("r1", 0)
    assert(archive.segmentsOf(0).flatMap(_._2).map(_.name) == Seq(sent.name))
  }

  test("an epoch that lacks a store is not sealed, and so never seen") {
    val cuts = driver()
    held(cuts, "r1", 0)
    cuts.open("r1", 7, part(2), 0)
    assert(errorOf(cuts.seal("r1", 0)).getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
  }

  test("a driver that another has followed cannot seal") {
    val first = driver()
    held(first, "r1", 0)
    epoch(driver(), "r2", 0)
    assert(errorOf(first.seal("r1", 0)).getErrorId == "CLEANCUT_FENCED")
  }

  test("a run that is followed while it waits for its frames is fenced") {
    lazy val cuts: QueryCuts =
      new QueryCuts(archive, new Logs(None, 100), "host", FollowedWhileWaiting)
    object FollowedWhileWaiting extends Clock {
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

  /** An epoch that its run has decided on, with no row in flight in the end. */
  private def captured(cuts: QueryCuts, run: String, epoch: Long): Unit = {
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

  /** Two drivers with one epoch, of which the first has not found that it was followed. */
  private def rivals(isBlind: => Boolean = true): (QueryCuts, QueryCuts) = {
    val blind = new CutArchive(new BlindToOwners(store, () => isBlind), Clock.System)
    val first = new QueryCuts(blind, new Logs(None, 100), "host", Clock.System)
    epoch(first, "r1", 0)
    captured(first, "r1", 1)
    val second = driver()
    held(second, "r2", 1)
    (first, second)
  }

  test("of two drivers that seal one epoch the second to do so is fenced, whichever it is") {
    val (zombie, successor) = rivals()
    successor.seal("r2", 1)
    val late = errorOf(zombie.seal("r1", 1))
    assert(late.getErrorId == "CLEANCUT_FENCED" && late.getMessage.contains("r2"))
    successor.commit("r2", 1, "v1\n{}")
    assert(archive.read(1).exists(_.run.runId == "r2"))

    afterEach()
    beforeEach()
    val (first, second) = rivals()
    first.seal("r1", 1)
    assert(errorOf(second.seal("r2", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(driver().isDecidedBefore("r3", 1))
    first.commit("r1", 1, "v1\n{}")
    assert(archive.read(1).exists(_.channels.size == 2))
  }

  test("a driver that was followed just before its seal does not let its sink write") {
    def isSealed = store.head(ObjectKey(CutLayout.seal(1))).isDefined
    val (zombie, _) = rivals(isBlind = !isSealed)
    assert(errorOf(zombie.seal("r1", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(isSealed, "it was found before")
  }

  test("a driver whose sink skips what the run before has sealed meanwhile commits nothing") {
    val (zombie, successor) = rivals()
    zombie.seal("r1", 1)
    assert(errorOf(successor.commit("r2", 1, "v1\n{}")).getErrorId == "CLEANCUT_FENCED")
    assert(archive.epochs() == Seq(0L))
  }

  test("a driver that dies before the seal has shown nothing, and the epoch runs again") {
    val first = driver()
    held(first, "r1", 0)
    val second = driver()
    held(second, "r2", 0)
    second.seal("r2", 0)
    second.commit("r2", 0, "v1\n{}")
    assert(archive.read(0).get.stores.size == 2)
  }

  test("of two drivers the one that came first is fenced") {
    val first = driver()
    epoch(first, "r1", 0)
    val second = driver()
    epoch(second, "r2", 1)
    val error = errorOf(epoch(first, "r1", 1))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2"))
    epoch(second, "r2", 2)
    assert(archive.epochs().map(archive.read(_).get.run.runId) == Seq("r1", "r2", "r2"))
  }

  test("of two drivers that commit one epoch, who finds a cut there stops") {
    val first = driver()
    epoch(first, "r1", 0)
    val other = Cut(1, RunId(None, "r0", 1), "t0", 0, "v1", "", Nil, Map.empty)
    archive.create(other)
    assert(errorOf(epoch(first, "r1", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(archive.read(1).contains(other))
  }

  test("a run that was followed on the same driver is not believed any more") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    epoch(cuts, "r2", 1)
    assert(cuts.open("r1", 1, part(0), 2).isLeft)
    assert(submit(cuts, "r1", frame(part(0), 3, 1)).isInstanceOf[Ack.Unknown])
    assert(errorOf(cuts.commit("r1", 2, "v1")).getErrorId == "CLEANCUT_FENCED")
  }

  test("an epoch whose sink skips it is made of the frames of its earlier run") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    // The driver dies between the sink's commit and the cut; the sink skips the epoch then.
    val second = driver()
    second.commit("r2", 1, "v1\n{}")
    val cut = archive.read(1).get
    assert(cut.run.runId == "r2" && cut.stores.map(_.version.number) == Seq(2L, 2L))
    epoch(second, "r2", 2)
  }

  test("a driver from which a later one has swept an earlier run's frames is fenced") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    // They are there when it lists the segments, and gone when it reads them.
    val swept = new SweptWhenRead(store, () => archive.own(None, "r3", "other"))
    val logs = new Logs(None, 100)
    val zombie = new QueryCuts(new CutArchive(swept, Clock.System), logs, "host", Clock.System)
    val error = errorOf(zombie.commit("r2", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r3"))
    assert(archive.segmentsOf(1).isEmpty && archive.epochs() == Seq(0L))
  }

  test("half of the frames of an earlier run are no epoch") {
    val first = driver()
    epoch(first, "r1", 0)
    submit(first, "r1", frame(part(0), 2, 20L))
    val error = errorOf(driver().commit("r2", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
  }

  test("a query without state is committed by cuts too") {
    val cuts = driver()
    for (e <- 0L to 2L) cuts.commit("r1", e, s"v1\n{\"e\":$e}")
    assert(archive.epochs() == Seq(0L, 1L, 2L))
  }

  test("a checkpoint that was written without cuts goes on with a base of each store") {
    val cuts = driver(plain = Some(6))
    assert(cuts.open("r1", 1, part(0), 6).isLeft)
    assert(cuts.open("r1", 1, part(0), 7) == Right(Opened(None, needsBase = true)))
    submit(cuts, "r1", frame(part(0), 8, 1))
    assert(errorOf(cuts.commit("r1", 7, "v1")).getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    submit(cuts, "r1", frame(part(0), 8, 1, FrameKind.Base))
    submit(cuts, "r1", frame(part(0), 8, 2, FrameKind.Base))
    cuts.commit("r1", 7, "v1")
    assert(archive.read(7).get.stores.map(_.frames.map(_._1)) == Seq(Seq(FrameKind.Base)))
    assert(cuts.open("r1", 3, part(0), 8).exists(o => o.accepted.isDefined && !o.needsBase))
  }

  test("a base takes the place of what it holds, and the sweep leaves what kept cuts name") {
    val cuts = driver()
    for (e <- 0L until 60L) {
      epoch(cuts, "r1", e)
      if (e % 7 == 3) {
        val ids = archive.read(e).get.stores.map(s => s.store -> s.version)
        for ((store, version) <- ids) {
          val name = FrameName(store, version, FrameKind.Base)
          val base = SealedFrame(name, QueryLedger.Maintenance, s"base $version".getBytes)
          assert(submit(cuts, "r1", base) == Ack.Accepted)
        }
      }
    }
    val last = archive.read(59).get
    assert(last.stores.forall(s => s.frames.head._1 == FrameKind.Base && s.frames.size <= 8))
    val before = archive.segments().size
    val swept = new CutSweep(archive, QueryLedger.BaseMargin).run(oldest = 56)
    assert(archive.epochs() == (56L to 59L))
    assert(swept.segments > 20 && archive.segments().size == before - swept.segments)
    for (e <- archive.epochs(); name <- archive.read(e).get.segments)
      assert(store.head(ObjectKey(name)).isDefined, s"$name of cut $e is gone")
  }

  test("what a savepoint names outlives the sweep, until it is given up") {
    val cuts = driver()
    for (e <- 0L until 60L) epoch(cuts, "r1", e)
    cuts.pin("before-upgrade", 5)
    assert(errorOf(cuts.pin("before-upgrade", 6)).getErrorId == "CLEANCUT_SAVEPOINT_INVALID")
    assert(errorOf(cuts.pin("../x", 6)).getErrorId == "CLEANCUT_SAVEPOINT_INVALID")
    assert(errorOf(cuts.pin("later", 77)).getErrorId == "CLEANCUT_SAVEPOINT_INVALID")
    // Without bases every cut names all that came before, so that a base has to make garbage.
    for (store <- archive.read(59).get.stores) {
      val name = FrameName(store.store, store.version, FrameKind.Base)
      submit(cuts, "r1", SealedFrame(name, QueryLedger.Maintenance, "base".getBytes))
    }
    for (e <- 60L until 90L) epoch(cuts, "r1", e)
    assert(new CutSweep(archive, QueryLedger.BaseMargin).run(oldest = 88).segments > 40)
    val pinned = archive.pinned()("before-upgrade")
    assert(pinned.epoch == 5 && pinned.segments.nonEmpty)
    assert(pinned.segments.forall(name => store.head(ObjectKey(name)).isDefined))
    assert(cuts.unpin("before-upgrade") && !cuts.unpin("before-upgrade"))
    assert(
      new CutSweep(archive, QueryLedger.BaseMargin)
        .run(oldest = 88)
        .segments == pinned.segments.size
    )
  }

  test("files from before the first cut go when no epoch of theirs is kept any more") {
    val name = StoreLayout.objectName(StateVersion(7, StateVersion.newId(Clock.System)), _)
    val files = FrameKind.all.map(kind => s"${StoreLayout.storeDirectory(part(0))}/${name(kind)}")
    files.foreach(file => store.put(ObjectKey(file), Array[Byte](1)))
    val cuts = driver(plain = Some(6))
    for (e <- 7L to 9L) {
      cuts.open("r1", e, part(0), e)
      submit(cuts, "r1", frame(part(0), e + 1, e, FrameKind.Base))
      cuts.commit("r1", e, "v1")
    }
    val sweep = new CutSweep(archive, QueryLedger.BaseMargin)
    assert(sweep.run(oldest = 6).storeFiles == 0 && archive.storeFiles().size == files.size)
    assert(sweep.run(oldest = 7).storeFiles == files.size && archive.storeFiles().isEmpty)
    assert(cuts.open("r1", 10, part(0), 10).isRight)
  }

  test("a cut tells what its epoch cost, and all cuts together what the run did") {
    val cuts = driver()
    val before = store.counts
    for (e <- 0L to 3L) epoch(cuts, "r1", e)
    val told = archive.epochs().map(archive.read(_).get.costs.get)
    // Not the write of the last cut, which the next would tell, nor what this test asks for.
    val kinds = Seq(RequestKind.Put, RequestKind.Create)
    val puts = told.map(c => kinds.flatMap(k => c.driver.requests.get(k.name)).map(_.requests).sum)
    val sent = archive.store.counts - before
    assert(puts.sum == kinds.map(sent(_).requests).sum - 1)
    // An object for each frame or for both, and the cut before; first the owner and the format.
    assert(puts.head <= 4 && puts.tail.forall(n => n == 2 || n == 3), puts)
    val segments = archive.segments().map(_._2)
    assert(told.map(_.driver.segments).sum == segments.size)
    assert(told.map(_.driver.segmentBytes).sum == segments.map(store.head(_).get.sizeBytes).sum)
    val frames = archive.read(3).get.stores.flatMap(_.frames.map(_._3.length))
    assert(told.map(_.driver.frames).sum == frames.size)
    assert(told.map(_.driver.frameBytes).sum == frames.sum)
    assert(told.forall(_.executorCount == 0))
  }

  test("a cut tells how long its epoch took, and which of its stores took longest, where") {
    val cuts = driver()
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 0)
    Clock.System.sleep(30, TimeUnit.MILLISECONDS)
    val usage = Usage.Zero.copy(written = WriteCounts(5, 500, 1, 600))
    cuts.heard("r1", 11, Sender("7", "host-7", usage))
    for (p <- 0 to 1) submit(cuts, "r1", frame(part(p), 1, 10L + p))
    cuts.commit("r1", 0, "v1")
    val cut = archive.read(0).get
    assert(cut.timings("epochMs") >= 30 && cut.timings("epochMs") >= cut.timings("gateMs"))
    val parts = Seq("collectMs", "ownerMs", "offsetsMs").map(cut.timings)
    assert((0L to 2L).contains(cut.timings("gateMs") - parts.sum))
    val costs = cut.costs.get
    assert(costs.executorCount == 1 && costs.executors.segmentBytes == 600)
    assert(costs.slowest.map(_.store).toSet == Set(part(0), part(1)))
    assert(costs.slowest.forall(_.ms >= 30))
    val second = costs.slowest.find(_.store == part(1)).get
    assert((second.executor, second.host) == (("7", "host-7")))
    val last = cuts.status.last.get
    assert(last.cut == cut)
    epoch(cuts, "r1", 1)
    val next = archive.read(1).get
    assert(next.timings("previousCutMs") == last.writeMs)
    assert(next.costs.get.executors.segmentBytes == 0, "it was told once")
  }

  test("the status tells the run, the last epoch and how far the next one is") {
    val cuts = driver()
    assert(cuts.status.run.isEmpty && cuts.status.committed.isEmpty)
    epoch(cuts, "r1", 0)
    cuts.open("r1", 5, part(0), 1)
    cuts.open("r1", 6, part(1), 1)
    submit(cuts, "r1", frame(part(1), 2, 6))
    cuts.fail("r1", 5)
    val status = cuts.status
    assert(status.run.exists(_.generation == 1) && status.committed.contains(0L))
    assert(status.epoch.contains(EpochProgress(1, 2, 1, failed = 1, stores = 2, reported = 1)))
    assert(status.usage.driver.requests.requests > 0)
  }

  /** A plan of two partitions of one operator, whose tasks report to a driver as they run. */
  private class Plan(driver: QueryCuts, run: String, epoch: Long) extends EpochPlan {
    var runs = 0
    override def stores: Set[StoreId] = Set(part(0), part(1))
    override def run(): Unit = {
      runs += 1
      for (p <- 0 to 1) {
        val attempt = 1000 + epoch * 10 + p
        assert(driver.open(run, attempt, part(p), epoch).isRight)
        assert(submit(driver, run, frame(part(p), epoch + 1, attempt)) == Ack.Accepted)
      }
    }
  }

  test("an epoch that its sink skips is run by the gate if nothing is left of an earlier run") {
    val first = driver()
    epoch(first, "r1", 0)
    val cuts = driver()
    val plan = new Plan(cuts, "r2", 1)
    cuts.commit("r2", 1, "v1\n{}", Some(plan))
    assert(plan.runs == 1)
    assert(archive.read(1).get.stores.map(_.frames.map(_._2.number)) == Seq(Seq(1, 2), Seq(1, 2)))
    epoch(cuts, "r2", 2)
  }

  test("the gate runs nothing that an earlier run has made, or this one") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    val cuts = driver()
    val plan = new Plan(cuts, "r2", 1)
    cuts.commit("r2", 1, "v1\n{}", Some(plan))
    for (p <- 0 to 1) submit(cuts, "r2", frame(part(p), 3, 30L + p))
    cuts.commit("r2", 2, "v1\n{}", throw new AssertionError("asked for the plan in vain"))
    assert(plan.runs == 0 && archive.epochs() == Seq(0L, 1L, 2L))
  }

  test("without a cut before it an epoch is whole if it has every store of the plan") {
    for (seen <- Seq(Nil, Seq(0))) {
      val cuts = driver()
      val plan = new Plan(cuts, "r1", 0)
      for (p <- seen) {
        cuts.open("r1", 7, part(p), 0)
        submit(cuts, "r1", frame(part(p), 1, 7))
      }
      cuts.commit("r1", 0, "v1\n{}", Some(plan))
      assert(plan.runs == 1, s"after $seen")
      assert(archive.read(0).get.stores.map(_.store.partition) == Seq(0, 1))
      epoch(cuts, "r1", 1)
      afterEach()
      beforeEach()
    }
  }

  test("half of an earlier run is not whole before the first cut either, whatever it looks like") {
    val first = driver()
    for (p <- 0 to 1) submit(first, "r1", frame(part(p, "left"), 1, 20L + p))
    val cuts = driver()
    val plan = new Plan(cuts, "r2", 0)
    cuts.commit("r2", 0, "v1\n{}", Some(plan))
    assert(plan.runs == 1 && archive.read(0).get.stores.map(_.store.name) == Seq.fill(2)("default"))
  }

  test("what fails in a run by the gate ends the query, and nothing is committed") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    val failing = new Plan(cuts, "r1", 1) {
      override def run(): Unit = throw new IllegalStateException("a task failed")
    }
    intercept[IllegalStateException](cuts.commit("r1", 1, "v1\n{}", Some(failing)))
    assert(archive.epochs() == Seq(0L))
  }

  test("a task that this run began is no empty epoch, if nothing else is known") {
    val cuts = driver()
    cuts.open("r1", 7, part(0), 0)
    assert(errorOf(cuts.commit("r1", 0, "v1\n{}")).getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    assert(archive.epochs().isEmpty)
  }

  test("a log of commits that has gone on without cuts is refused") {
    epoch(driver(), "r1", 0)
    val error = errorOf(driver(plain = Some(3)).commit("r2", 4, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_CUTS_OVERTAKEN")
    assert(error.getMessage.contains("epoch 3") && error.getMessage.contains("epoch 0"))
    epoch(driver(plain = Some(0)), "r3", 1)
  }
}
