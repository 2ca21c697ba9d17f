package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.cutstore.CutArchive
import io.cleancut.protocol.{Ack, EpochPlan}
import io.cleancut.coordinator.SingleRegistrations._

/** Epochs that their sink skips: recovered from frames of an earlier run, or run in the commit. */
class SkippedEpochSuite extends AnyFunSuite with CutsOnDisk {

  test("an epoch that its sink skips is recovered from the frames of an earlier run") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    // The driver dies between the sink's commit and the cut. The sink then skips the epoch.
    val second = driver()
    second.commit("r2", 1, "v1\n{}")
    val cut = archive.cuts.read(1).get
    assert(cut.run.runId == "r2" && cut.stores.map(_.version.number) == Seq(2L, 2L))
    epoch(second, "r2", 2)
  }

  test("a driver that starts while a later one deletes segments of the last cut is fenced") {
    epoch(driver(), "r1", 0)
    val swept = new ConcurrentSweepStore(store, 0L, () => archive.owners.take(None, "r3", "other"))
    val logs = new Logs(None, 100)
    val zombie =
      new QueryCoordinator(new CutArchive(swept, Clock.System), logs, "host", Clock.System)
    val error = errorOf(zombie.begin("r2"))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r3"))
  }

  test("a driver whose successor has deleted the frames of an earlier run is fenced") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    // The segments exist when the driver lists them, and are deleted when it reads them.
    val swept = new ConcurrentSweepStore(store, 1L, () => archive.owners.take(None, "r3", "other"))
    val logs = new Logs(None, 100)
    val zombie =
      new QueryCoordinator(new CutArchive(swept, Clock.System), logs, "host", Clock.System)
    val error = errorOf(zombie.commit("r2", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_FENCED" && error.getMessage.contains("r3"))
    assert(archive.segments.ofEpoch(1).isEmpty && archive.cuts.epochs() == Seq(0L))
  }

  test("some frames of an earlier run do not complete an epoch") {
    val first = driver()
    epoch(first, "r1", 0)
    submit(first, "r1", frame(part(0), 2, 20L))
    val error = errorOf(driver().commit("r2", 1, "v1\n{}"))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
  }

  test("if Spark counts versions, frames of an earlier run do not complete an epoch") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    val counted = s"""v2\n{"stateUniqueIds":{"0":[[["one"]],[["other"]]]}}"""
    val error = errorOf(driver().commit("r2", 1, counted))
    assert(error.getErrorId == "CLEANCUT_EPOCH_INCOMPLETE" && archive.cuts.epochs() == Seq(0L))
  }

  /** A plan with two partitions of one operator, whose tasks report to a driver. */
  private class Plan(driver: QueryCoordinator, run: String, epoch: Long) extends EpochPlan {
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

  test("the commit runs an epoch that its sink skips if no earlier run has left its frames") {
    val first = driver()
    epoch(first, "r1", 0)
    val cuts = driver()
    val plan = new Plan(cuts, "r2", 1)
    cuts.commit("r2", 1, "v1\n{}", Some(plan))
    assert(plan.runs == 1)
    assert(
      archive.cuts.read(1).get.stores.map(_.frames.map(_._2.number)) == Seq(Seq(1, 2), Seq(1, 2))
    )
    epoch(cuts, "r2", 2)
  }

  test("the commit runs no tasks if this run or an earlier run has made the frames") {
    val first = driver()
    epoch(first, "r1", 0)
    for (p <- 0 to 1) submit(first, "r1", frame(part(p), 2, 20L + p))
    val cuts = driver()
    val plan = new Plan(cuts, "r2", 1)
    cuts.commit("r2", 1, "v1\n{}", Some(plan))
    for (p <- 0 to 1) submit(cuts, "r2", frame(part(p), 3, 30L + p))
    cuts.commit("r2", 2, "v1\n{}", throw new AssertionError("the plan is not required"))
    assert(plan.runs == 0 && archive.cuts.epochs() == Seq(0L, 1L, 2L))
  }

  test("without an earlier cut an epoch is complete if it has every store of the plan") {
    for (seen <- Seq(Nil, Seq(0))) {
      val cuts = driver()
      val plan = new Plan(cuts, "r1", 0)
      for (p <- seen) {
        cuts.open("r1", 7, part(p), 0)
        submit(cuts, "r1", frame(part(p), 1, 7))
      }
      cuts.commit("r1", 0, "v1\n{}", Some(plan))
      assert(plan.runs == 1, s"after $seen")
      assert(archive.cuts.read(0).get.stores.map(_.store.partition) == Seq(0, 1))
      epoch(cuts, "r1", 1)
      afterEach()
      beforeEach()
    }
  }

  test("before the first cut, some frames of an earlier run do not complete an epoch either") {
    val first = driver()
    for (p <- 0 to 1) submit(first, "r1", frame(part(p, "left"), 1, 20L + p))
    val cuts = driver()
    val plan = new Plan(cuts, "r2", 0)
    cuts.commit("r2", 0, "v1\n{}", Some(plan))
    assert(
      plan.runs == 1 && archive.cuts.read(0).get.stores.map(_.store.name) == Seq.fill(2)("default")
    )
  }

  test("a failure while the commit runs tasks ends the query, and nothing is committed") {
    val cuts = driver()
    epoch(cuts, "r1", 0)
    val failing = new Plan(cuts, "r1", 1) {
      override def run(): Unit = throw new IllegalStateException("a task failed")
    }
    intercept[IllegalStateException](cuts.commit("r1", 1, "v1\n{}", Some(failing)))
    assert(archive.cuts.epochs() == Seq(0L))
  }

  test("an epoch with an open task is not empty, even if no store is known") {
    val cuts = driver()
    cuts.open("r1", 7, part(0), 0)
    assert(errorOf(cuts.commit("r1", 0, "v1\n{}")).getErrorId == "CLEANCUT_EPOCH_INCOMPLETE")
    assert(archive.cuts.epochs().isEmpty)
  }
}
