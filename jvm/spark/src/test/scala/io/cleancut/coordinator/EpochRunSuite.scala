package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.coordinator.LedgerFrames._
import io.cleancut.coordinator.state._
import io.cleancut.cutstore.usage.{Usage, UsageBook}
import io.cleancut.format.{Channels, FrameKind, FrameName, StoreCut}
import io.cleancut.format.cut.{RunId, SealedFrame}
import io.cleancut.protocol.{Ack, ChannelTask, EpochLedger, EpochState}

class EpochRunSuite extends AnyFunSuite {
  private val Epoch = 5L
  private val FrameBytes = 100
  private val before = cut(
    Epoch - 1,
    Seq(Left, Right).map(store => StoreCut(store, Vector(delta(store, Epoch, 1L)))): _*
  )
  private val budget = new FrameBudget(1L << 20)

  private def begun(state: EpochState = EpochState(Epoch, isFirst = false)): EpochRun =
    new EpochRun(new EpochLedger(Epoch, Some(before)), state, budget)

  private def sealedFrame(store: StoreId, number: Long = Epoch + 1): SealedFrame =
    SealedFrame(
      FrameName(store, version(number, 1L), FrameKind.Delta),
      attempt = 1L,
      new Array[Byte](FrameBytes)
    )

  /** Has the driver hold a frame, as [[QueryRun.keep]] does. */
  private def hold(run: EpochRun, frame: SealedFrame): Unit = {
    assert(run.offer(frame))
    assert(run.ledger.hold(frame.attempt, frame.name) == Ack.Accepted)
    ()
  }

  test("only frames of the epoch are held, and no frames of maintenance") {
    val run = begun()
    for (number <- Seq(Epoch, Epoch + 2)) assert(!run.offer(sealedFrame(Left, number)))
    assert(!run.offer(sealedFrame(Left).copy(attempt = SealedFrame.Maintenance)))
    assert(budget.usedBytes == 0)
  }

  test("frames are held until the last store has one, and are written together") {
    val run = begun()
    hold(run, sealedFrame(Left))
    assert(run.due().isEmpty)
    hold(run, sealedFrame(Right))
    val due = run.due().get
    assert(due.frames.map(_.name.store) == Seq(Left, Right))
    run.wrote(due)
    assert(budget.usedBytes == 0)
  }

  test("no frame is kept in memory for an epoch that an earlier run has sealed") {
    val run = begun(EpochState(Epoch, isFirst = true, sealedBefore = Some(cut(Epoch))))
    assert(!run.offer(sealedFrame(Left)))
  }

  test("frames of an epoch that the sink seals are released once, in their order") {
    val run = begun()
    hold(run, sealedFrame(Left))
    run.on(EpochState.Hold(Epoch))
    hold(run, sealedFrame(Right))
    assert(run.due().isEmpty, "the sink seals the epoch")
    assert(run.release().map(_.name.store) == Seq(Left, Right))
    assert(budget.usedBytes == 2 * FrameBytes, "they are not durable yet")
    run.released()
    assert(budget.usedBytes == 0 && run.release().isEmpty)
    assert(!run.offer(sealedFrame(Right)), "the epoch is sealed")
  }

  test("a commit clears all state of its epoch") {
    val usage = UsageBook.Shares(Usage.Zero, Usage.Zero, executorCount = 0)
    val run = new QueryRun(
      RunId(None, "run", 1L),
      new QueryLedger(Epoch - 1, Some(before)),
      new EpochMeter(usage),
      seal = None,
      Begun(Epoch - 1, Some(before), generation = 1L, isAlone = true),
      collector = null,
      budget,
      new EpochWriter(_.run(), _ => ())
    )
    // The first epoch of a run leaves no in-flight rows.
    run.advance(before.copy(epoch = Epoch))
    val epoch = Epoch + 1
    run.epoch.on(EpochState.Hold(epoch))
    val channel = StoreId(0L, 0, Channels.name(0))
    val capture = Capture(CaptureMode.Unaligned, None)
    val task = ChannelTask(1L, channel, epoch, partitions = 2, "executor", capture)
    assert(run.openChannel(task, nowNs = 0L).exists(_.mayDefer))
    assert(run.open(1L, Left, epoch).isRight)
    assert(run.keep(sealedFrame(Left, epoch + 1)).contains(Ack.Accepted))
    assert(run.isWatched && run.cutNow(1L) && budget.usedBytes == FrameBytes)
    val earlier = run.epoch
    run.advance(before.copy(epoch = epoch))
    assert(run.epoch ne earlier)
    assert(run.epoch.epoch == epoch + 1 && run.epoch.state.phase == EpochState.Open)
    assert(budget.usedBytes == 0 && !run.isWatched)
    assert(run.epoch.ledger.tasks.isEmpty && run.epoch.channels.reading.isEmpty)
    assert(run.tick(Long.MaxValue).isEmpty)
  }
}
