package io.cleancut.history

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.history.Records._

class SlowEpochsSuite extends AnyFunSuite {

  /** The reason that is given for an epoch after ten typical ones. */
  private def judged(slow: Long => EpochRecord): Option[SlowReason] = {
    val slowEpochs = new SlowEpochs
    val usual = (0L until 10L).map(record(_, executors = share(sent = 1000, sentMs = 100)))
    assert(usual.map(slowEpochs.judge).forall(_.slow.isEmpty))
    slowEpochs.judge(slow(10)).slow
  }

  private def kind(slow: Long => EpochRecord) = judged(slow).map(_.kind)

  test("an epoch of typical or slightly longer duration is not slow") {
    assert(judged(record(_)).isEmpty)
    assert(judged(record(_, durationMs = 299)).isEmpty, "less than 200 ms more")
    assert(judged(record(_, durationMs = 301)).isDefined)
  }

  test("the first epochs of a run are not compared") {
    val slow = new SlowEpochs
    for (epoch <- 0L until 5L) assert(slow.judge(record(epoch, durationMs = 9000)).slow.isEmpty)
    for (epoch <- 5L until 10L) slow.judge(record(epoch))
    val other = record(10, durationMs = 9000, run = "other", generation = 2)
    assert(slow.judge(other).slow.isEmpty)
  }

  test("slow epochs are counted by reason, and the last one is kept") {
    val slow = new SlowEpochs
    (0L until 10L).foreach(epoch => slow.judge(record(epoch)))
    assert(slow.tally == SlowTally.None && slow.tally.total == 0)
    slow.judge(record(10, 2100, ms = Seq(50, 50, 2000, 50)))
    slow.judge(record(11))
    slow.judge(record(12, 2100, ms = Seq(50, 50, 2000, 50)))
    val last = slow.judge(record(13, 3000, health = EpochHealth(2900, Nil, 0)))
    assert(slow.tally.counts == Map(SlowEpochs.Straggler -> 2L, SlowEpochs.DriverPause -> 1L))
    assert(slow.tally.total == 3 && slow.tally.last.contains(SlowTally.Last(13, last.slow.get)))
  }

  test("a partition with more rows is reported with its rows and the typical count") {
    val skewed = judged(record(_, 2100, ms = Seq(50, 50, 2000, 50), rows = Seq(10, 10, 900, 10)))
    assert(skewed.map(_.kind).contains(SlowEpochs.Straggler))
    val detail = skewed.get.detail
    for (fact <- Seq("partition 2", "operator 0", "2000 ms", "900 rows", "is 10", "executor 7"))
      assert(detail.contains(fact), detail)
    assert(skewed.get.typicalMs == 100)
  }

  test("a slow partition with typical rows is reported as such") {
    val slow = judged(record(_, 2100, ms = Seq(50, 50, 2000, 50)))
    assert(slow.exists(_.detail.contains("no more rows than others")))
  }

  test("repeated requests take precedence over the straggler that they cause") {
    val waited = share(sent = 1000, sentMs = 100, waitedMs = 1900, retries = 3)
    val slow = judged(record(_, 2100, ms = Seq(50, 50, 2000, 50), executors = waited))
    assert(slow.map(_.kind).contains(SlowEpochs.Retries))
    assert(slow.exists(r => r.detail.contains("3 requests") && r.detail.contains("(put)")))
  }

  test("slow uploads are identified by their throughput, and large ones are not slow") {
    val slow = share(sent = 1000, sentMs = 4000)
    val all = Seq(1000L, 1000L, 1000L, 1000L)
    assert(kind(record(_, 1100, ms = all, executors = slow)).contains(SlowEpochs.Upload))
    val large = share(sent = 40000, sentMs = 4000)
    val rows = Seq(400L, 400L, 400L, 400L)
    assert(
      kind(record(_, 1100, ms = all, rows = rows, executors = large)).contains(SlowEpochs.Input)
    )
  }

  test("a paused driver, and a lost executor, take precedence over all else") {
    val skewed = Seq(50L, 50L, 2000L, 50L)
    val paused = EpochHealth(1900, Nil, 0)
    assert(kind(record(_, 2100, ms = skewed, health = paused)).contains(SlowEpochs.DriverPause))
    val lost = EpochHealth(1900, Seq("3" -> "worker lost"), repeatedTasks = 2)
    val why = judged(record(_, 2100, ms = skewed, health = lost))
    assert(why.map(_.kind).contains(SlowEpochs.ExecutorLost))
    assert(why.exists(_.detail.contains("executor 3 (worker lost)")))
    val idle = lost.copy(pauseMs = 0, repeatedTasks = 0)
    assert(kind(record(_, 2100, ms = skewed, health = idle)).contains(SlowEpochs.Straggler))
  }

  test("a slow commit is reported with its slowest part") {
    val slow = judged(record(_, 2100, gateMs = 1900))
    assert(slow.map(_.kind).contains(SlowEpochs.Commit))
    assert(slow.exists(_.detail.contains("for the ownership check before the cut (1900 ms)")))
    val late = record(10)
    val written = judged(_ => late.copy(timings = late.timings + ("cutMs" -> 1900L)))
    assert(written.exists(_.detail.contains("for the write of the cut (1900 ms)")))
  }

  test("the phase that explains half of the time is the cause, with its longest stage") {
    val phases = Seq(
      "sourceMs" -> SlowEpochs.Source,
      "planMs" -> SlowEpochs.Planning,
      "mapMs" -> SlowEpochs.MapSide,
      "stateMs" -> SlowEpochs.StateOperators,
      "sinkMs" -> SlowEpochs.Sink
    )
    for ((timing, cause) <- phases)
      assert(kind(record(_, 2100, phases = Map(timing -> 1900L))).contains(cause))
    val operators = Seq("MicroBatchScan", "BatchEvalPython", "Exchange")
    val stages = EpochStages(
      Seq(
        StageRecord(12, "map side", operators, 4, 10, 1880),
        StageRecord(11, "map side", Nil, 1, 10, 3),
        StageRecord(13, "state operators", Nil, 4, 1900, 1900)
      ),
      Map.empty
    )
    val slow = judged(record(_, 2100, phases = Map("mapMs" -> 1900L)).copy(stages = stages))
    val detail = slow.get.detail
    val stage = "stage 12 (MicroBatchScan, BatchEvalPython, Exchange; 4 tasks) (1880 ms)"
    assert(
      detail == s"tasks before the state operators took 1900 ms instead of 0 ms, most of it $stage"
    )
  }

  test("the time after the write of the cut counts") {
    val checked = judged(record(_, phases = Map("checkMs" -> 1900L)))
    assert(checked.map(_.kind).contains(SlowEpochs.Commit))
    assert(checked.exists(_.detail.contains("for the ownership check after the cut (1900 ms)")))
  }

  test("more rows are the cause only if they explain the time") {
    val rows = Seq(20L, 20L, 20L, 20L)
    assert(kind(record(_, 350, rows = rows)).contains(SlowEpochs.Unknown))
    val phases = Map("mapMs" -> 20000L)
    assert(kind(record(_, 20100, rows = rows, phases = phases)).contains(SlowEpochs.MapSide))
    val many = rows.map(_ * 10)
    assert(kind(record(_, 2100, rows = many, phases = phases)).contains(SlowEpochs.Input))
  }

  test("in-flight rows that grow over epochs are described, and steady ones are not") {
    def growth(rows: Long*) = {
      val slow = new SlowEpochs
      rows.zipWithIndex.map { case (count, epoch) =>
        slow.judge(record(epoch.toLong, inFlight = count)).growth
      }.last
    }
    val grown = growth(100, 150, 220, 300, 290, 400, 500, 640)
    assert(grown.contains(InFlightGrowth(8, 100, 640)))
    assert(grown.get.description.contains("grew from 100 to 640 over the last 8 epochs"))
    assert(growth(100, 150, 220, 300, 400, 500, 640).isEmpty, "too few epochs")
    assert(growth(100, 640, 100, 640, 100, 640, 100, 640).isEmpty)
    assert(growth(500, 500, 500, 500, 500, 500, 500, 640).isEmpty)
    assert(growth(1, 2, 3, 4, 5, 6, 7, 8).isEmpty, "too few rows")
  }

  test("a slow epoch without a known cause has the reason unknown") {
    val slow = judged(record(_, durationMs = 2100, phases = Map("mapMs" -> 800L, "sinkMs" -> 750L)))
    assert(slow.map(_.kind).contains(SlowEpochs.Unknown))
    assert(slow.get.detail.endsWith(": map side 800 ms, sink 750 ms, other 545 ms, commit 5 ms"))
  }
}
