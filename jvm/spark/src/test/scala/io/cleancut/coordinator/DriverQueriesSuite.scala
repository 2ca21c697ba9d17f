package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.coordinator.driver.DriverQueries
import io.cleancut.coordinator.state.OperatorReasons
import io.cleancut.cutstore.CutArchive
import io.cleancut.coordinator.SingleRegistrations._
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.cutstore.usage.Place

/** A driver has one coordinator for each running query, and none for others. */
class DriverQueriesSuite extends AnyFunSuite with CutsOnDisk {
  private class Query(location: String, keep: Int = 100) {
    val root = storeAt(location)
    val closed = new java.util.concurrent.atomic.AtomicInteger
    def make(): QueryCoordinator = {
      val runtime = CutsRuntime.onThreads(root, Clock.System)
      val packer = new ForwardingPacker(runtime.packer) {
        override def close(): Unit = {
          closed.incrementAndGet()
          super.close()
        }
      }
      val logs = new Logs(None, keep)
      new QueryCoordinator(
        new CutArchive(root, Clock.System),
        logs,
        "host",
        runtime.copy(packer = packer)
      )
    }
  }

  private def begin(
      runs: DriverQueries,
      location: String,
      run: String,
      over: Set[String] = Set.empty
  )(
      query: Query
  ): QueryCoordinator = {
    val cuts = runs.begin(location, run, over)(_ => query.make())
    cuts.begin(run)
    cuts
  }

  /** Earlier, each ended query stayed in memory with its cut, its ledger and its packer. */
  test("a driver keeps no coordinator of 200 ended queries") {
    val runs = new DriverQueries
    val queries = Seq.tabulate(200)(i => new Query(s"query-$i"))
    for ((query, i) <- queries.zipWithIndex) {
      val cuts = begin(runs, s"query-$i", s"run-$i")(query)
      assert(runs.of(s"query-$i").contains(cuts) && runs.size == 1)
      runs.endRun(s"run-$i")
    }
    assert(runs.size == 0 && queries.forall(_.closed.get == 1))
    val archives = queries.map(query => new CutArchive(query.root, Clock.System))
    assert(archives.forall(_.owners.running().isEmpty))
    assert(archives.forall(_.owners.take(None, "next", "host").isAlone))
    assert(archives.forall(_.owners.running().map(_.runId).contains("next")))
  }

  /** Earlier, it kept the settings of the first start in the driver. */
  test("a restarted query has a coordinator with the settings of its last start") {
    val runs = new DriverQueries
    val (first, second) = (new Query("query", keep = 100), new Query("query", keep = 3))
    val before = begin(runs, "query", "run-1")(first)
    val after = begin(runs, "query", "run-2", over = Set("run-1"))(second)
    assert((before ne after) && first.closed.get == 1 && runs.size == 1)
    assert(Seq(before, after).map(_.runs.logs.retention) == Seq(CutRetention(100), CutRetention(3)))
    assert(begin(runs, "query", "run-2")(first) eq after)
  }

  test("a late message of an ended run does not start it again") {
    val runs = new DriverQueries
    val query = new Query("query")
    begin(runs, "query", "run-1")(query)
    assert(runs.of("query", "run-1").isDefined)
    runs.endRun("run-1")
    assert(runs.of("query", "run-1").isEmpty)
    begin(runs, "query", "run-2")(query)
    assert(
      runs.of("query", "run-1").isEmpty && runs.find("query").exists(_.runId.contains("run-2"))
    )
    runs.endRun("run-1")
    assert(runs.of("query", "run-2").isDefined)
  }

  test("a run that continues after its successor has begun is fenced") {
    val runs = new DriverQueries
    val query = new Query("query")
    val first = begin(runs, "query", "run-1")(query)
    val second = begin(runs, "query", "run-2")(query)
    assert(runs.of("query", "run-1").contains(second) && query.closed.get == 1)
    val again = runs.begin("query", "run-1", Set.empty[String])(_ => query.make())
    assert((again eq second) && (again ne first))
    assert(errorOf(again.begin("run-1")).getErrorId == "CLEANCUT_FENCED")
    assert(second.open("run-1", 1, part(0), 0).left.exists(_.why.contains("run-2")))
  }

  test("the reasons about operators are kept after a run has ended") {
    val runs = new DriverQueries
    val cuts = begin(runs, "query", "run-1")(new Query("query"))
    cuts.alignedBecause("run-1", Map(0L -> "it is the last"))
    cuts.pysparkLoopBecause("run-1", Map(1L -> "it is slow"))
    runs.endRun("run-1")
    val expected = OperatorReasons(Map(0L -> "it is the last"), Map(1L -> "it is slow"))
    assert(runs.find("query").exists(_.reasonsBefore == expected))
    assert(runs.find("other").isEmpty)
  }

  test("the next run knows the locations of stores, and only recent queries are remembered") {
    val runs = new DriverQueries
    val at = Place("1", "host")
    for (i <- 0 until 100) {
      begin(runs, s"query-$i", s"run-$i")(new Query(s"query-$i"))
      runs
        .find(s"query-$i")
        .foreach(_.homes { homes =>
          homes.follows(at)
          homes.opened(part(0), at)
        })
      if (i > 0) runs.endRun(s"run-$i")
    }
    val known = runs.all.filter(_.homes(_.startRun()) == Map(part(0) -> at)).map(_.location)
    assert(known.size <= 66 && known.contains("query-0") && known.contains("query-99"))
    assert(runs.size == 1 && !known.contains("query-1"))
  }

  test("a query is polled while its tasks may be stragglers, and not after its end") {
    val runs = new DriverQueries
    val cuts = (0 until 4).map(i => begin(runs, s"query-$i", s"run-$i")(new Query(s"query-$i")))
    def polled(isOpen: QueryCoordinator => Boolean): Seq[Int] = {
      val indexes = scala.collection.mutable.Buffer.empty[Int]
      runs.scan { query =>
        indexes += cuts.indexOf(query)
        isOpen(query)
      }
      indexes.toSeq
    }
    assert(polled(_ => true).isEmpty)
    (0 until 3).foreach(i => runs.find(s"query-$i").foreach(_.watch()))
    assert(polled(_ eq cuts(1)) == Seq(0, 1, 2) && polled(_ => true) == Seq(1))
    // A query that becomes late during a poll without effect is polled again.
    val late = runs.find("query-0").get
    late.watch()
    polled { query =>
      if (query eq cuts(0)) late.watch()
      false
    }
    assert(polled(_ => true) == Seq(0))
    runs.endRun("run-0")
    assert(polled(_ => true).isEmpty && !late.isWatched)
    runs.clear()
    assert(runs.all.isEmpty)
  }
}
