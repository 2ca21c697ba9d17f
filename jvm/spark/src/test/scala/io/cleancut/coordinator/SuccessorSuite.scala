package io.cleancut.coordinator

import java.io.IOException
import java.nio.file.Files
import java.nio.file.attribute.FileTime
import java.util.concurrent.CompletionException

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.cutstore.{CutArchive, Owner}
import io.cleancut.cutstore.gc.CutSweep
import io.cleancut.format.{CutLayout, FrameKind, FrameName}
import io.cleancut.format.cut.SealedFrame
import io.cleancut.objectstore.{CreateResult, ObjectKey, WriterToken}
import io.cleancut.protocol.{Ack, Refusal}
import io.cleancut.testkit.Patience
import io.cleancut.coordinator.SingleRegistrations._

/** A run that takes over a query from a run that is still alive. */
class SuccessorSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val HourMs = 3600000L

  /** A driver that has not committed epoch 1 yet, and the driver that has taken over. */
  private def takenOver(): (QueryCoordinator, QueryCoordinator) = {
    val first = driver()
    epoch(first, "r1", 0)
    tasks(first, "r1", 1)
    val second = driver()
    val begun = second.begin("r2")
    assert(begun.committed == 0L && begun.cut.exists(_.epoch == 0L) && !begun.isAlone)
    (first, second)
  }

  test("a successor adopts an epoch that its predecessor commits late, and continues") {
    val (first, second) = takenOver()
    val made = tasks(second, "r2", 1)
    val late = errorOf(first.commit("r1", 1, "v1\n{\"of\":1}"))
    assert(late.getErrorId == "CLEANCUT_FENCED" && late.getMessage.contains("r2 on host"))
    assert(late.getMessage.contains("before it committed epoch 2"))
    // The successor returns to Spark the entry that a later run will read.
    assert(second.commit("r2", 1, "v1\n{\"of\":2}") == "v1\n{\"of\":1}")
    assert(archive.cuts.read(1).exists(_.run.runId == "r1"))
    // Its tasks continue from the versions of that cut, as if this run had not run the epoch.
    val taken = archive.cuts.read(1).get
    for (p <- 0 to 1) {
      val known = second.accepted(part(p), 2)
      assert(known == taken.of(part(p)).map(_.version.id) && !known.contains(made(p)))
    }
    epoch(second, "r2", 2)
    val cut = archive.cuts.read(2).get
    assert(cut.run.runId == "r2" && cut.stores.forall(_.frames.map(_._2.number) == Seq(1, 2, 3)))
    for (p <- 0 to 1)
      assert(taken.of(part(p)).map(_.frames.toSeq) == cut.of(part(p)).map(_.frames.init.toSeq))
  }

  /** A commit entry with the versions that Spark counts. */
  private def counting(ids: Seq[String]) =
    s"""v2\n{"stateUniqueIds":{"0":[${ids.map(id => s"[[\"$id\"]]").mkString(",")}]}}"""

  test("if Spark counts versions, tasks continue from the versions of their own run") {
    val first = driver()
    epoch(first, "r1", 0)
    val earlier = tasks(first, "r1", 1)
    // The cut of the first drops the frames from which the second continues.
    for (store <- archive.cuts.read(0).get.stores) {
      val name = FrameName(store.store, store.version, FrameKind.Base)
      assert(
        submit(
          first,
          "r1",
          SealedFrame(name, SealedFrame.Maintenance, "base".getBytes)
        ) == Ack.Accepted
      )
    }
    val second = driver()
    second.begin("r2")
    val made = tasks(second, "r2", 1)
    assert(errorOf(first.commit("r1", 1, counting(earlier))).getErrorId == "CLEANCUT_FENCED")
    assert(second.commit("r2", 1, counting(made)) == counting(earlier))
    for (p <- 0 to 1) assert(second.accepted(part(p), 2).contains(made(p)))
    epoch(second, "r2", 2)
    val after = archive.cuts.open(2).get
    new CutSweep(archive, baseMargin = 0L, () => false).run(oldest = 1, retained = Set.empty)
    after.segments.foreach(name =>
      assert(store.head(ObjectKey(name)).isDefined, s"$name was deleted")
    )
  }

  test("a successor whose sink skips the adopted epoch continues after the predecessor's cut") {
    val (first, second) = takenOver()
    assert(errorOf(first.commit("r1", 1, "v1\n{}")).getErrorId == "CLEANCUT_FENCED")
    assert(second.commit("r2", 1, "v1\n{\"of\":2}") == "v1\n{}")
    val cut = archive.cuts.read(1).get
    for (p <- 0 to 1)
      assert(second.accepted(part(p), 2) == cut.of(part(p)).map(_.version.id))
    epoch(second, "r2", 2)
  }

  test("a successor with other input does not adopt the cut of its predecessor") {
    for (isSkipped <- Seq(false, true)) {
      val first = driver()
      epoch(first, "r1", 0)
      tasks(first, "r1", 1)
      val logs = new Logs(None, 100) {
        override def offsets(epoch: Long): String =
          if (epoch == 1) "other offsets" else super.offsets(epoch)
      }
      val second = new QueryCoordinator(archive, logs, "host", Clock.System)
      second.begin("r2")
      errorOf(first.commit("r1", 1, "v1\n{}"))
      if (!isSkipped) tasks(second, "r2", 1)
      val error = errorOf(second.commit("r2", 1, "v1\n{}"))
      assert(error.getErrorId == "CLEANCUT_FENCED", s"skipped: $isSkipped")
      assert(archive.cuts.read(1).exists(_.run.runId == "r1"))
      afterEach()
      beforeEach()
    }
  }

  test("a successor whose sink skips the adopted epoch keeps that cut for its age") {
    val first = driver()
    epoch(first, "r1", 0)
    tasks(first, "r1", 1)
    val old = FileTime.fromMillis(Clock.System.wallMs() - 2 * HourMs)
    Files.setLastModifiedTime(directory.resolve(CutLayout.cut(0)), old)
    val second = driver(keep = 2, keptMs = HourMs)
    second.begin("r2")
    assert(errorOf(first.commit("r1", 1, "v1\n{}")).getErrorId == "CLEANCUT_FENCED")
    second.commit("r2", 1, "v1\n{\"of\":2}")
    for (e <- 2L until 20L) epoch(second, "r2", e)
    // It was deleted together with the cut before it, although it was young.
    eventually(assert(archive.cuts.epochs() == (1L until 20L)))
  }

  test("a fenced run and its tasks receive the name of the owner") {
    val (first, _) = takenOver()
    assert(errorOf(first.checkOwner("r1")).getMessage.contains("r2 on host, generation 2"))
    val refused = first.open("r1", 99, part(0), 1)
    assert(refused.left.exists {
      case Refusal.Fenced(owner) => owner.contains("r2 on host")
      case _                     => false
    })
  }

  test("a fenced run does not adopt the cut of its successor") {
    val (first, second) = takenOver()
    tasks(second, "r2", 1)
    second.commit("r2", 1, "v1\n{}")
    val error = errorOf(first.commit("r1", 1, "v1\n{}"))
    assert(
      error.getErrorId == "CLEANCUT_FENCED" && archive.cuts.read(1).exists(_.run.runId == "r2")
    )
  }

  test("after an end marker the successor is alone") {
    val first = driver()
    assert(first.begin("r1").isAlone)
    epoch(first, "r1", 0)
    first.endRun("another")
    assert(store.head(ObjectKey(CutLayout.endMarker(1))).isEmpty)
    for (_ <- 1 to 2) first.endRun("r1")
    assert(store.head(ObjectKey(CutLayout.endMarker(1))).isDefined)
    val second = driver()
    assert(second.begin("r2").isAlone && second.begin("r2").committed == 0L)
    assert(!driver().begin("r3").isAlone)
  }

  test("a run that took over from a live run writes its end marker only after a commit") {
    val (first, second) = takenOver()
    second.endRun("r2")
    assert(store.head(ObjectKey(CutLayout.endMarker(2))).isEmpty)
    val third = driver()
    assert(!third.begin("r3").isAlone)
    tasks(third, "r3", 1)
    third.commit("r3", 1, "v1\n{}")
    third.endRun("r3")
    assert(driver().begin("r4").isAlone)
    assert(errorOf(first.checkOwner("r1")).getErrorId == "CLEANCUT_FENCED")
  }

  /** A store that creates an object, whose response is lost. */
  final private class LostResponse(name: String) extends ForwardingStore(store) {
    override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
      val result = super.create(key, body, token)
      if (key.name == name) throw new IOException("time out")
      result
    }
  }

  test("a run does not record its end while an object of a failed write may still appear") {
    def failing(write: => Any): Unit = {
      intercept[IOException](write)
      ()
    }
    def entry(cuts: QueryCoordinator): Unit =
      failing(
        try cuts.plan("r1", 1)(throw new IOException("time out")).join()
        catch { case e: CompletionException => throw e.getCause }
      )
    def cut(cuts: QueryCoordinator): Unit = {
      tasks(cuts, "r1", 1)
      failing(cuts.commit("r1", 1, "v1\n{}"))
    }
    def ofOperation(cuts: QueryCoordinator): Unit =
      failing(cuts.writing("r1")(throw new IOException("time out")))
    def atStart(cuts: QueryCoordinator): Unit =
      failing(cuts.atStart("r1", "offsets")(throw new IOException("time out")))
    val writes = Seq[(Boolean, QueryCoordinator => Unit)](
      (false, atStart),
      (false, entry),
      (true, entry),
      (false, cut),
      (false, ofOperation)
    )
    for (((isSealed, write), number) <- writes.zipWithIndex) {
      val first = driver(around = _ => new LostResponse(CutLayout.cut(1)))
      if (isSealed) first.hold("r1", 0)
      tasks(first, "r1", 0)
      // After a sealed epoch the entry is written concurrently.
      if (isSealed) first.seal("r1", 0)
      first.commit("r1", 0, "v1\n{}")
      write(first)
      first.endRun("r1")
      assert(store.head(ObjectKey(CutLayout.endMarker(1))).isEmpty, s"write $number")
      assert(!driver().begin("r2").isAlone)
      afterEach()
      beforeEach()
    }
  }

  test("a run that is fenced while it begins does not begin") {
    val blind = new CutArchive(new TakeoverStore(store, () => driver().begin("r2")), Clock.System)
    val first = new QueryCoordinator(blind, new Logs(None, 100), "host", Clock.System)
    val error = errorOf(first.begin("r1"))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r2"))
  }

  test("two drivers that repeatedly take over from each other are both named in the error") {
    def owner(generation: Long, host: String) =
      Owner(generation, s"r$generation", host, generation * 60_000L)
    val rivals = (5L to 1L by -1L).map(g => owner(g, if (g % 2 == 0) "even" else "odd"))
    assert(Owner.rivalry(rivals).exists(text => text.contains("odd") && text.contains("even")))
    assert(Owner.rivalry(rivals.take(4)).isEmpty)
    assert(Owner.rivalry(rivals.map(_.copy(host = "one"))).isEmpty)
    // Each host is new, as when a driver pod is replaced.
    assert(Owner.rivalry(rivals.map(o => o.copy(host = s"pod-${o.generation}"))).isEmpty)
    assert(Owner.rivalry(rivals.map(o => o.copy(startedMs = o.startedMs * 60))).isEmpty)

    val (left, right) = ("left", "right")
    def on(host: String) = new QueryCoordinator(archive, new Logs(None, 100), host, Clock.System)
    val drivers = Seq(left, right, left, right).map(on)
    drivers.zipWithIndex.foreach { case (cuts, index) => cuts.begin(s"r$index") }
    on(left).begin("r4")
    val message = errorOf(drivers.last.checkOwner("r3")).getMessage
    assert(message.contains("r4 on left") && message.contains("drivers on left and right"))
  }

  test("a run starts although the record of a killed run is corrupted") {
    driver().begin("r1")
    archive.store.put(ObjectKey(CutLayout.owner(1L)), "{".getBytes)
    assert(driver().begin("r2").generation == 2L)
  }
}
