package io.cleancut.coordinator

import java.nio.file.Files
import java.nio.file.attribute.FileTime
import java.util.concurrent.{ExecutionException, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.coordinator.state.{Opened, QueryLedger}
import io.cleancut.cutstore.SegmentPacker
import io.cleancut.cutstore.gc.CutSweep
import io.cleancut.cutstore.usage.{Place, Sender, Usage, WriteCounts}
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix, RequestKind}
import io.cleancut.protocol.{Ack, EpochProgress}
import io.cleancut.testkit.Patience
import io.cleancut.format.{CutLayout, FrameKind, FrameName, SegmentIdentity, StoreLayout}
import io.cleancut.format.cut.{Cut, RunId, SealedFrame}
import io.cleancut.coordinator.SingleRegistrations._

/** The coordinator of a query, on the local disk. */
class QueryCoordinatorSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val HourMs = 3600000L

  test("the cut of an epoch references the frames that its tasks wrote") {
    val first = driver()
    for (e <- 0L to 2L) epoch(first, "r1", e)
    val cut = archive.cuts.read(2).get
    assert(cut.commit == "v1\n{\"e\":2}" && cut.offsets == "offsets of 2")
    assert(cut.run == RunId(Some("query"), "r1", 1))
    assert(cut.stores.map(_.frames.map(_._2.number)) == Seq(Seq(1L, 2L, 3L), Seq(1L, 2L, 3L)))
    for (stores <- cut.stores; (_, version, place) <- stores.frames) {
      val object_ = store.get(ObjectKey(place.segment)).get
      val bytes = object_.slice(place.offset.toInt, (place.offset + place.length).toInt)
      assert(new String(bytes) == s"${stores.store} ${version.number}")
    }
    assert(store.get(ObjectKey("format.json")).isDefined)
  }

  test("a repeated report of a frame is a duplicate, and a late report is unknown") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    val again = archive.segments.ofEpoch(0).flatMap(_._2).head
    assert(report(cuts, "r1", again).isInstanceOf[Ack.Unknown])
    val open = frame(part(0), 2, 77)
    for (sent <- Seq(open, frame(part(1), 2, 78)))
      assert(submit(cuts, "r1", sent) == Ack.Accepted)
    val placed = archive.segments.ofEpoch(1).flatMap(_._2).head
    assert(report(cuts, "r1", placed) == Ack.Duplicate)
    assert(cuts.open("r1", 78, part(0), 5).isLeft)
  }

  test("an epoch without a frame of each store is not committed, and the error names the store") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    cuts.open("r1", 5, part(0), 1)
    submit(cuts, "r1", frame(part(0), 2, 5))
    val error = errorOf(cuts.commit("r1", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    assert(error.getMessage.contains(part(1).toString))
    assert(archive.cuts.epochs() == Seq(0L))
  }

  test("the error about missing frames names the last attempt at each store and its executor") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    for (attempt <- Seq(6L, 7L))
      cuts.open("r1", attempt, part(1), 1, Some(Place(s"$attempt", s"host-$attempt")))
    cuts.fail("r1", 6)
    val error = errorOf(cuts.commit("r1", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    val details = Seq(
      s"${part(0)} (no task has opened it)",
      s"${part(1)} (last opened by task attempt 7 in executor 7 on host-7)"
    )
    assert(error.getMessage.contains(details.mkString("; ")), error.getMessage)
  }

  test("a task does not wait while a store is missing, and the last task waits for all frames") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 1)
    assert(submit(cuts, "r1", frame(part(0), 2, 10)) == Ack.Accepted)
    assert(segments(1).isEmpty && cuts.status.epoch.get.reported == 1)
    assert(submit(cuts, "r1", frame(part(1), 2, 11)) == Ack.Accepted)
    assert(segments(1).map(_._2.size) == Seq(2))
    // A task of a second action waits for its own frame.
    cuts.open("r1", 12, part(0), 1)
    assert(submit(cuts, "r1", frame(part(0), 2, 12)) == Ack.Accepted)
    assert(segments(1).size == 2)
    cuts.commit("r1", 1, "v1\n{}")
  }

  test("a JVM error in a write fails the waiting task, and the next write includes its frames") {
    var isFull = false
    val scarce = new ForwardingStore(store) {
      override def put(key: ObjectKey, body: Array[Byte]): Unit =
        if (isFull) throw new OutOfMemoryError("Cannot reserve direct buffer memory")
        else super.put(key, body)
    }
    val runtime = CutsRuntime.onThreads(scarce, Clock.System)
    val cuts = new QueryCoordinator(archive, new Logs(None, 100), "host", runtime)
    epoch(cuts, "r1", 0)
    isFull = true
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 1)
    assert(submit(cuts, "r1", frame(part(0), 2, 10)) == Ack.Accepted)
    val error = intercept[ExecutionException](submit(cuts, "r1", frame(part(1), 2, 11)))
    assert(error.getCause.isInstanceOf[OutOfMemoryError])
    isFull = false
    cuts.commit("r1", 1, "v1\n{}")
    assert(archive.cuts.epochs() == Seq(0L, 1L))
  }

  test("a frame that an executor wrote may be the last frame of an epoch") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 1)
    submit(cuts, "r1", frame(part(0), 2, 10))
    val large = SegmentPacker.writeSegment(store, "3", Clock.System) _
    val placed = large(SegmentIdentity(1, "3", "r1", 1), Seq(frame(part(1), 2, 11))).head
    assert(segments(1).size == 1)
    assert(report(cuts, "r1", placed) == Ack.Accepted)
    assert(segments(1).size == 2)
    // The driver dies, and the sink skips the repeated epoch.
    driver().commit("r2", 1, "v1\n{}")
    assert(archive.cuts.read(1).get.stores.map(_.version.number) == Seq(2L, 2L))
  }

  test("in the first epoch, whose stores are not known, each task's frames are durable at once") {
    val cuts = driver()
    for (p <- 0 to 1) {
      cuts.open("r1", p.toLong, part(p), 0)
      submit(cuts, "r1", frame(part(p), 1, p.toLong))
      assert(segments(0).size == p + 1)
    }
  }

  test("the last task fails if the write of all frames fails, and its retry writes them") {
    var fails = true
    val runtime = CutsRuntime.onThreads(store, Clock.System)
    val failing = new ForwardingPacker(runtime.packer) {
      override def write(run: SegmentIdentity, frames: Seq[SealedFrame]) =
        if (fails) throw new IllegalStateException("no space")
        else super.write(run, frames)
    }
    val cuts =
      new QueryCoordinator(archive, new Logs(None, 9), "host", runtime.copy(packer = failing))
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
    assert(archive.cuts.read(1).get.of(part(1)).get.version == retried.name.version)
  }

  test("of two drivers the earlier one is fenced") {
    val first = driver()
    epoch(first, "r1", 0)
    val second = driver()
    epoch(second, "r2", 1)
    val error = errorOf(epoch(first, "r1", 1))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2"))
    epoch(second, "r2", 2)
    assert(archive.cuts.epochs().map(archive.cuts.read(_).get.run.runId) == Seq("r1", "r2", "r2"))
  }

  test("a driver that finds the cut of another driver at its commit is fenced") {
    val first = driver()
    epoch(first, "r1", 0)
    val other = Cut(1, RunId(None, "r0", 1), "t0", 0, "v1", "", Nil, Map.empty)
    archive.cuts.create(other)
    assert(errorOf(epoch(first, "r1", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(archive.cuts.read(1).contains(other))
  }

  test("a run with a successor on the same driver is fenced") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    epoch(cuts, "r2", 1)
    assert(cuts.open("r1", 1, part(0), 2).isLeft)
    assert(submit(cuts, "r1", frame(part(0), 3, 1)).isInstanceOf[Ack.Unknown])
    assert(errorOf(cuts.commit("r1", 2, "v1")).getErrorId == "CLEANCUT_FENCED")
  }

  test("a query without state is committed by cuts") {
    val cuts = driver()
    for (e <- 0L to 2L) cuts.commit("r1", e, s"v1\n{\"e\":$e}")
    assert(archive.cuts.epochs() == Seq(0L, 1L, 2L))
  }

  test("the first epoch with cuts of an existing checkpoint writes a base of each store") {
    val cuts = driver(plain = Some(6))
    assert(cuts.open("r1", 1, part(0), 6).isLeft)
    assert(cuts.open("r1", 1, part(0), 7) == Right(Opened(None, needsBase = true)))
    submit(cuts, "r1", frame(part(0), 8, 1))
    assert(errorOf(cuts.commit("r1", 7, "v1")).getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    submit(cuts, "r1", frame(part(0), 8, 1, FrameKind.Base))
    submit(cuts, "r1", frame(part(0), 8, 2, FrameKind.Base))
    cuts.commit("r1", 7, "v1")
    assert(archive.cuts.read(7).get.stores.map(_.frames.map(_._1)) == Seq(Seq(FrameKind.Base)))
    assert(cuts.open("r1", 3, part(0), 8).exists(o => o.accepted.isDefined && !o.needsBase))
  }

  test("a base replaces earlier frames, and garbage collection keeps segments of retained cuts") {
    val cuts = driver()
    for (e <- 0L until 60L) {
      epoch(cuts, "r1", e)
      if (e % 7 == 3) {
        val ids = archive.cuts.read(e).get.stores.map(s => s.store -> s.version)
        for ((store, version) <- ids) {
          val name = FrameName(store, version, FrameKind.Base)
          val base = SealedFrame(name, SealedFrame.Maintenance, s"base $version".getBytes)
          assert(submit(cuts, "r1", base) == Ack.Accepted)
        }
      }
    }
    val last = archive.cuts.read(59).get
    assert(last.stores.forall(s => s.frames.head._1 == FrameKind.Base && s.frames.size <= 8))
    val before = archive.segments.keys().size
    val swept = new CutSweep(archive, QueryLedger.BaseMargin, () => false)
      .run(oldest = 56, retained = Set.empty)
    assert(archive.cuts.epochs() == (56L to 59L))
    assert(swept.segments > 20 && archive.segments.keys().size == before - swept.segments)
    val sizes = Seq(CutLayout.Cuts, CutLayout.Segments, CutLayout.Pages).flatMap { directory =>
      store.list(ObjectPrefix(directory)).map(_.sizeBytes)
    }
    assert(swept.keptBytes.exists(_ == sizes.sum))
    for (e <- archive.cuts.epochs(); name <- archive.cuts.read(e).get.segments)
      assert(store.head(ObjectKey(name)).isDefined, s"$name of cut $e is gone")
  }

  test(
    "cuts within the retention time are kept, whatever their number, and older ones are deleted"
  ) {
    val first = driver()
    for (e <- 0L until 30L) epoch(first, "r1", e)
    for (e <- 0L until 25L) {
      val old = FileTime.fromMillis(Clock.System.wallMs() - 2 * HourMs)
      Files.setLastModifiedTime(directory.resolve(CutLayout.cut(e)), old)
    }
    val cuts = driver(keep = 2, keptMs = HourMs)
    for (e <- 30L until 60L) epoch(cuts, "r2", e)
    eventually(assert(archive.cuts.epochs() == (25L until 60L)))
  }

  test("garbage collection keeps the segments of a savepoint until it is dropped") {
    val cuts = driver()
    for (e <- 0L until 60L) epoch(cuts, "r1", e)
    cuts.pin("before-upgrade", 5)
    assert(errorOf(cuts.pin("before-upgrade", 6)).getErrorId == "CLEANCUT_SAVEPOINT_INVALID")
    assert(errorOf(cuts.pin("../x", 6)).getErrorId == "CLEANCUT_SAVEPOINT_INVALID")
    assert(errorOf(cuts.pin("later", 77)).getErrorId == "CLEANCUT_SAVEPOINT_INVALID")
    // Without bases each cut references all earlier segments, so only a base makes them garbage.
    for (store <- archive.cuts.read(59).get.stores) {
      val name = FrameName(store.store, store.version, FrameKind.Base)
      submit(cuts, "r1", SealedFrame(name, SealedFrame.Maintenance, "base".getBytes))
    }
    for (e <- 60L until 90L) epoch(cuts, "r1", e)
    assert(
      new CutSweep(archive, QueryLedger.BaseMargin, () => false)
        .run(oldest = 88, retained = Set.empty)
        .segments > 40
    )
    val pinned = archive.savepoints.all()("before-upgrade")
    assert(pinned.head.epoch == 5 && pinned.segments.nonEmpty)
    assert(pinned.segments.forall(name => store.head(ObjectKey(name)).isDefined))
    assert(cuts.unpin("before-upgrade") && !cuts.unpin("before-upgrade"))
    assert(
      new CutSweep(archive, QueryLedger.BaseMargin, () => false)
        .run(oldest = 88, retained = Set.empty)
        .segments == pinned.segments.size
    )
  }

  test("files from before the first cut are deleted when none of their epochs is retained") {
    val name = StoreLayout.objectName(StateVersion(7, StateVersion.newId(Clock.System)), _)
    val files = FrameKind.all.map(kind => s"${StoreLayout.storeDirectory(part(0))}/${name(kind)}")
    files.foreach(file => store.put(ObjectKey(file), Array[Byte](1)))
    val cuts = driver(plain = Some(6))
    for (e <- 7L to 9L) {
      cuts.open("r1", e, part(0), e)
      submit(cuts, "r1", frame(part(0), e + 1, e, FrameKind.Base))
      cuts.commit("r1", e, "v1")
    }
    val sweep = new CutSweep(archive, QueryLedger.BaseMargin, () => false)
    assert(
      sweep.run(oldest = 6, retained = Set.empty).storeFiles == 0 && archive
        .storeFiles()
        .size == files.size
    )
    assert(
      sweep.run(oldest = 7, retained = Set.empty).storeFiles == files.size && archive
        .storeFiles()
        .isEmpty
    )
    assert(cuts.open("r1", 10, part(0), 10).isRight)
  }

  test("a cut has the costs of its epoch, and all cuts together the costs of the run") {
    val cuts = driver()
    val before = store.counts
    for (e <- 0L to 3L) epoch(cuts, "r1", e)
    val costs = archive.cuts.epochs().map(archive.cuts.read(_).get.costs.get)
    // Without the write of the last cut, which the next cut would have, and requests of this test.
    val kinds = Seq(RequestKind.Put, RequestKind.Create)
    val puts = costs.map(c => kinds.flatMap(k => c.driver.requests.get(k.name)).map(_.requests).sum)
    val sent = archive.store.counts - before
    assert(puts.sum == kinds.map(sent(_).requests).sum - 1)
    // An object for each frame or for both, and the previous cut; first the owner and the format.
    assert(puts.head <= 4 && puts.tail.forall(n => n == 2 || n == 3), puts)
    val segments = archive.segments.keys().map(_._2)
    assert(costs.map(_.driver.segments).sum == segments.size)
    assert(costs.map(_.driver.segmentBytes).sum == segments.map(store.head(_).get.sizeBytes).sum)
    val frames = archive.cuts.read(3).get.stores.flatMap(_.frames.map(_._3.length))
    assert(costs.map(_.driver.frames).sum == frames.size)
    assert(costs.map(_.driver.frameBytes).sum == frames.sum)
    assert(costs.forall(_.executorCount == 0))
  }

  test("a cut has the duration of its epoch and its slowest stores with their executors") {
    val cuts = driver()
    for (p <- 0 to 1) cuts.open("r1", 10L + p, part(p), 0)
    Clock.System.sleep(30, TimeUnit.MILLISECONDS)
    val usage = Usage.Zero.copy(written = WriteCounts(5, 500, 1, 600))
    cuts.recordSender("r1", 11, Sender("7", "host-7", usage))
    for (p <- 0 to 1) submit(cuts, "r1", frame(part(p), 1, 10L + p))
    cuts.commit("r1", 0, "v1")
    val cut = archive.cuts.read(0).get
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
    val next = archive.cuts.read(1).get
    assert(next.timings("previousCutMs") == last.writeMs)
    assert(last.cutLagMs.contains(cut.timings("gateMs") + last.writeMs))
    assert(next.costs.get.executors.segmentBytes == 0, "bytes of an executor count once")
  }

  test("the status has the run, the last epoch and the progress of the next one") {
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
    val next = driver().status
    assert(next.run.isEmpty && next.committed.contains(0L) && next.epoch.isEmpty)
  }

  test("a commit log that is ahead of the cuts is refused") {
    epoch(driver(), "r1", 0)
    val error = errorOf(driver(plain = Some(3)).commit("r2", 4, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_COMMIT_LOG_AHEAD")
    assert(error.getMessage.contains("epoch 3") && error.getMessage.contains("epoch 0"))
    epoch(driver(plain = Some(0)), "r3", 1)
  }
}
