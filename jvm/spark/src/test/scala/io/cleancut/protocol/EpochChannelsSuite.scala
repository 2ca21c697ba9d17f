package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.QueryLedger
import io.cleancut.format.{Channels, FrameKind, FrameName, FramePlace, PlacedFrame, StoreCut}
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut, PagedChains, RowsDigest, RunId}
import io.cleancut.conf.Capture

/** Decisions of channels, and the frames that a cut then has. */
class EpochChannelsSuite extends AnyFunSuite {
  private val Epoch = 4L
  private val state = StoreId(0, 1, "default")
  private val channel = StoreId(0, 1, Channels.name(0))
  private val all = RowsDigest(10, 100)

  private def version(attempt: Long) = StateVersion(Epoch + 1, f"$attempt%032x")

  private def frame(attempt: Long, store: StoreId, kind: FrameKind): PlacedFrame = PlacedFrame(
    FrameName(store, version(attempt), kind),
    FramePlace("segments/x", attempt * 10, 5L, 0),
    attempt
  )

  private def report(inFlight: Long, input: RowsDigest = all) =
    ChannelReport(channel, input, RowsDigest(inFlight, inFlight * 7))

  private def cutOf(stores: StoreCut*) =
    Cut(Epoch - 1, RunId(None, "r", 1), "t", 0L, "", "", stores, Map.empty, paged = paged)

  private def paged = PagedChains(storeCount = 1, pages = Nil, window = Nil)

  /** The cut as it is read: without the stores whose chains are in pages and in the window. */
  private def read(cut: Cut): Cut = cut.copy(stores = cut.inFlight)

  private def stored(store: StoreId) = StoreCut(
    store,
    Vector((FrameKind.Base, StateVersion(Epoch, "f" * 32), FramePlace("segments/y", 0L, 5L, 0)))
  )

  private val before = cutOf(stored(state), stored(channel))

  /** Runs an attempt that reads its channel, leaves in-flight rows, and commits. */
  private def run(
      ledger: EpochLedger,
      attempt: Long,
      inFlight: Long,
      input: RowsDigest = all
  ): Ack = {
    ledger.channels.open(attempt, channel, mayDefer = true)
    ledger.open(attempt, state)
    if (inFlight > 0) ledger.ack(frame(attempt, channel, FrameKind.Base))
    ledger.channels.report(attempt, report(inFlight, input))
    ledger.ack(frame(attempt, state, FrameKind.Delta))
  }

  private def closed(ledger: EpochLedger): Map[StoreId, StateVersion] =
    ledger.close(None).toOption.get.map(chain => chain.store -> chain.version).toMap

  test("a cut has the in-flight rows of the attempt whose state it has") {
    val ledger = new EpochLedger(Epoch, Some(before))
    assert(run(ledger, 1, inFlight = 3) == Ack.Accepted)
    assert(closed(ledger) == Map(state -> version(1), channel -> version(1)))
  }

  test("a cut has no empty channel") {
    val ledger = new EpochLedger(Epoch, Some(before))
    assert(run(ledger, 1, inFlight = 0) == Ack.Accepted)
    assert(closed(ledger) == Map(state -> version(1)))
  }

  test("the first complete attempt decides, and attempts with another decision fail") {
    val ledger = new EpochLedger(Epoch, Some(before))
    run(ledger, 1, inFlight = 3)
    assert(ledger.channels.decision(channel).map(_.report).contains(report(3)))
    for ((attempt, inFlight) <- Seq(2L -> 0L, 3L -> 4L)) {
      val ack = run(ledger, attempt, inFlight)
      assert(ack.isInstanceOf[Ack.Discarded], s"$inFlight in-flight rows: $ack")
    }
    assert(run(ledger, 4, inFlight = 3, RowsDigest(10, 99)).isInstanceOf[Ack.Discarded])
    assert(closed(ledger) == Map(state -> version(1), channel -> version(1)))
    assert(run(ledger, 5, inFlight = 3) == Ack.Accepted)
    assert(closed(ledger) == Map(state -> version(5), channel -> version(5)))
  }

  test("an attempt that fails before it is complete does not decide") {
    val ledger = new EpochLedger(Epoch, Some(before))
    ledger.channels.open(1, channel, mayDefer = true)
    ledger.open(1, state)
    ledger.ack(frame(1, channel, FrameKind.Base))
    ledger.channels.report(1, report(3))
    ledger.fail(1)
    assert(ledger.channels.decision(channel).isEmpty)
    assert(run(ledger, 2, inFlight = 5) == Ack.Accepted)
    assert(closed(ledger) == Map(state -> version(2), channel -> version(2)))
  }

  test("an attempt does not decide before there are frames of all its stores") {
    val other = state.copy(name = "other")
    val ledger = new EpochLedger(Epoch, Some(before))
    ledger.channels.open(1, channel, mayDefer = true)
    Seq(state, other).foreach(ledger.open(1, _))
    ledger.ack(frame(1, channel, FrameKind.Base))
    ledger.channels.report(1, report(3))
    ledger.ack(frame(1, state, FrameKind.Delta))
    assert(ledger.channels.decision(channel).isEmpty)
    ledger.ack(frame(1, other, FrameKind.Base))
    assert(ledger.channels.decision(channel).map(_.report).contains(report(3)))
  }

  test("an attempt that repeats a decision reports, although it may leave no other rows") {
    val ledger = new QueryLedger(Epoch - 1, Some(before))
    run(ledger.epoch, 1, inFlight = 3)
    val task = ChannelTask(2, channel, Epoch, 4, "0", Capture.Off)
    assert(ledger.openChannel(task, mayDefer = false).isRight)
    assert(!ledger.epoch.channels.isRead(2) && !ledger.epoch.channels.isWhole(channel))
  }

  test("a task opens all stores that the last cut has of it, unless an operation replaces them") {
    val ledger = new QueryLedger(Epoch - 1, Some(before))
    assert(ledger.storesOfTask(0, 1) == Seq(state))
    assert(ledger.storesOfTask(0, 2).isEmpty)
    ledger.replace(Epoch, Set(state))
    assert(ledger.storesOfTask(0, 1).isEmpty)
  }

  test("a held frame decides like a durable one") {
    val ledger = new EpochLedger(Epoch, Some(before))
    ledger.channels.open(1, channel, mayDefer = true)
    ledger.open(1, state)
    ledger.hold(1, frame(1, channel, FrameKind.Base).name)
    ledger.channels.report(1, report(3))
    assert(ledger.hold(1, frame(1, state, FrameKind.Delta).name) == Ack.Accepted)
    assert(ledger.channels.decision(channel).map(_.report).contains(report(3)))
    assert(run(ledger, 2, inFlight = 2).isInstanceOf[Ack.Discarded])
  }

  test("if Spark names the versions that it counts, the cut has their channels") {
    val ledger = new EpochLedger(Epoch, Some(before))
    run(ledger, 1, inFlight = 3)
    run(ledger, 2, inFlight = 3)
    val counted = ledger.close(Some(Set(version(1).id))).toOption.get
    assert(
      counted.map(chain => chain.store -> chain.version).toMap ==
        Map(state -> version(1), channel -> version(1))
    )
  }

  test("a task whose plan does not read its in-flight rows receives their channels") {
    val ledger = new QueryLedger(Epoch - 1, Some(before))
    assert(ledger.open(1, state, Epoch).map(_.unread) == Right(Seq(channel)))
    val task = ChannelTask(2, channel, Epoch, 4, "0", Capture.Off)
    assert(ledger.openChannel(task, mayDefer = false) == Right(Some(stored(channel))))
    assert(ledger.open(2, state, Epoch).map(_.unread) == Right(Nil))
  }

  test("a task that repeats a sealed epoch without its in-flight rows receives their channels") {
    val seal = Cut(
      Epoch,
      RunId(None, "r", 1),
      "t",
      0L,
      "",
      "",
      Seq(StoreCut(channel, Vector((FrameKind.Base, version(1), FramePlace("s", 0L, 5L, 0))))),
      Map.empty,
      channels = Seq(report(3))
    )
    val ledger = new QueryLedger(Epoch - 1, Some(cutOf(stored(state))), seal = Some(seal))
    assert(ledger.open(1, state, Epoch).map(_.unread) == Right(Seq(channel)))
    val decision = ledger.epoch.channels.decision(channel)
    assert(decision.map(_.report).contains(report(3)))
    assert(decision.flatMap(_.frame).map(_.version).contains(version(1)))
  }

  test("a cut and its reports are read as they were written") {
    val cut = before.copy(channels = Seq(report(3), report(0, RowsDigest(0, -1L))))
    assert(Cut.parse("x", Epoch - 1, cut.toBytes) == read(cut))
    assert(read(cut).inFlight.map(_.store) == Seq(channel))
  }

  test("a cut and the courses of its channels are read as they were written") {
    val other = channel.copy(partition = 2)
    val courses = Map(
      channel -> ChannelCourse(12L, 3400L, 7L, 812L, Some(250L), Some(0L)),
      other -> ChannelCourse(0L, 0L, 0L, 40L, None, None)
    )
    val cut = before.copy(
      channels = Seq(report(3), report(0).copy(channel = other)),
      courses = courses
    )
    assert(Cut.parse("x", Epoch - 1, cut.toBytes) == read(cut))
    assert(ChannelCourse.alignmentMs(courses.values) == 772L)
    assert(courses(channel).barrierToCaptureMs.contains(562L))
  }

  test("a channel has the course of the attempt that has decided") {
    val ledger = new EpochLedger(Epoch, Some(before))
    def course(arrivedMs: Long) = ChannelCourse(0L, 0L, 0L, arrivedMs, None, None)
    for (attempt <- 1L to 2L) {
      ledger.channels.open(attempt, channel, mayDefer = true)
      ledger.open(attempt, state)
      ledger.channels.report(attempt, report(0), Some(course(attempt * 100)))
    }
    assert(ledger.channels.decidedCourses.isEmpty)
    ledger.ack(frame(2, state, FrameKind.Delta))
    ledger.ack(frame(1, state, FrameKind.Delta))
    assert(ledger.channels.decidedCourses == Map(channel -> course(200)))
  }
}
