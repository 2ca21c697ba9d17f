package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.{CommittedEpoch, CutsStatus, OperatorReasons, QueryFigures}
import io.cleancut.cutstore.Notes
import io.cleancut.cutstore.usage.{Usage, UsageBook}
import io.cleancut.format.{FrameKind, FramePlace, StoreCut}
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut, RowsDigest, RunId}
import io.cleancut.history.{SlowEpochs, SlowReason, SlowTally}

/** The metrics that are computed from the status of a query. */
class QueryFiguresSuite extends AnyFunSuite {
  private val run = RunId(Some("query"), "run", 3)
  private val noUsage = UsageBook.Shares(Usage.Zero, Usage.Zero, 2)

  private def version(number: Long) = StateVersion(number, f"$number%032x")

  private def chain(partition: Int, kind: FrameKind, versions: Range) = {
    val frames = versions.map { number =>
      val frameKind = if (number == versions.head) kind else FrameKind.Delta
      (frameKind, version(number.toLong), FramePlace("segments/a", 0L, 100L, 0))
    }
    StoreCut(StoreId(0, partition, "default"), frames)
  }

  private def cut(stores: StoreCut*) = Cut(
    epoch = 9,
    run = run,
    token = "token",
    writtenMs = 60000,
    commit = "",
    offsets = "",
    stores = stores,
    timings = Map("epochMs" -> 1500L, "gateMs" -> 250L)
  )

  private def status(last: Option[Cut], courses: (StoreId, ChannelCourse)*) = CutsStatus(
    location = "/q",
    run = Some(run),
    committed = Some(9),
    epoch = None,
    slowest = Nil,
    last = last.map(CommittedEpoch(_, writeMs = 40)),
    usage = noUsage,
    channels = courses.map { case (channel, course) =>
      ChannelReport(channel, RowsDigest(50, 0), RowsDigest(course.bytesInFlight / 10, 0))
    },
    courses = courses.toMap,
    reasons = OperatorReasons(Map(4L -> "why"), Map.empty)
  )

  private def channel(operator: Long, partition: Int) =
    StoreId(operator, partition, "cleancut-channel-0")

  private def course(
      arrivedMs: Long,
      overtakenMs: Option[Long] = None,
      bytes: Long = 0,
      beyond: Long = 0
  ) = ChannelCourse(0, bytes, beyond, arrivedMs, overtakenMs, None)

  test("metrics of the last epoch are in base units") {
    val figures = new QueryFigures(status(Some(cut())), begun = 4, notes = None)
    assert(figures.gauge("epoch_duration_seconds").contains(1.5))
    assert(figures.gauge("commit_duration_seconds").contains(0.25))
    assert(figures.gauge("cut_write_duration_seconds").contains(0.04))
    assert(figures.gauge("cut_lag_seconds").contains(0.29))
    assert(figures.gauge("last_commit_timestamp_seconds").contains(60.0))
    assert(figures.gauge("aligned_operators").contains(1.0))
    assert(figures.gauge("executors").contains(2.0))
    assert(figures.count("epochs_total") == 5)
  }

  test("slow epochs are counted in total and by reason") {
    val why = SlowReason(100, SlowEpochs.Commit, "why")
    val slow = SlowTally.None.and(5, why).and(6, why.copy(kind = SlowEpochs.Input)).and(9, why)
    val figures = new QueryFigures(status(None).copy(slow = slow), begun = 4, notes = None)
    assert(figures.count("slow_epochs_total") == 3 && figures.slow(SlowEpochs.Commit) == 2)
    assert(figures.slow(SlowEpochs.Upload) == 0)
  }

  test("durations are the maximum over operators, and rows are their sum") {
    val figures = new QueryFigures(
      status(
        None,
        channel(0, 0) -> course(100),
        channel(0, 1) -> course(900, Some(400), bytes = 300, beyond = 7),
        channel(1, 0) -> course(200, bytes = 20),
        channel(1, 1) -> course(250, Some(100), beyond = 2)
      ),
      begun = 9,
      notes = None
    )
    assert(figures.gauge("alignment_duration_seconds").contains(0.8))
    assert(figures.gauge("barrier_to_capture_duration_seconds").contains(0.5))
    assert(figures.gauge("in_flight_bytes").contains(320.0))
    assert(figures.gauge("in_flight_rows").contains(32.0))
    assert(figures.gauge("in_flight_over_limit_rows").contains(9.0))
    assert(figures.gauge("overloaded_operators").contains(2.0))
    // This run has committed nothing yet.
    assert(figures.gauge("epoch_duration_seconds").isEmpty)
    assert(figures.gauge("stores").isEmpty && figures.gauge("chain_bytes").isEmpty)
  }

  test("the longest chain and the oldest base are maxima over all stores") {
    val based = cut(chain(0, FrameKind.Base, 8 to 10), chain(1, FrameKind.Base, 4 to 10))
    val figures = new QueryFigures(status(Some(based)), begun = 0, notes = None)
    assert(figures.gauge("longest_chain_frames").contains(7.0))
    assert(figures.gauge("oldest_snapshot_age_epochs").contains(6.0))
    assert(figures.gauge("chain_bytes").contains(1000.0))
    assert(figures.gauge("stores").contains(2.0))
    val without = cut(chain(0, FrameKind.Delta, 1 to 10))
    val all = new QueryFigures(status(Some(without)), begun = 0, notes = None)
    assert(all.gauge("oldest_snapshot_age_epochs").contains(10.0))
  }

  test("restore tests and replicas have metrics after the first scan") {
    def figures(notes: Option[Notes]) =
      new QueryFigures(status(Some(cut())), begun = 0, notes = notes)
    val names = Seq(
      "restore_test_epoch",
      "restore_test_timestamp_seconds",
      "epochs_since_restore_test",
      "replica_lag_epochs",
      "replica_lag_seconds"
    )
    assert(names.forall(figures(None).gauge(_).isEmpty))
    val never = figures(Some(Notes(Nil, Nil)))
    assert(names.filter(never.gauge(_).isDefined) == Seq("epochs_since_restore_test"))
    assert(never.gauge("epochs_since_restore_test").contains(10.0))
    val copies = Seq(
      """{"location": "a", "epoch": 9, "writtenMs": 60000}""",
      """{"location": "b", "epoch": 6, "writtenMs": 57500}""",
      """{"location": "c", "epoch": "six"}""",
      "no JSON"
    )
    val noted = figures(Some(Notes(Seq(f"${7}%020d-${5000}%020d.json"), copies)))
    assert(noted.gauge("restore_test_epoch").contains(7.0))
    assert(noted.gauge("restore_test_timestamp_seconds").contains(5.0))
    assert(noted.gauge("epochs_since_restore_test").contains(2.0))
    assert(noted.gauge("replica_lag_epochs").contains(3.0))
    assert(noted.gauge("replica_lag_seconds").contains(2.5))
  }
}
