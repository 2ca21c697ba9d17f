package io.cleancut.coordinator.state

import java.util.concurrent.TimeUnit.NANOSECONDS

import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.cutstore.SegmentPacker
import io.cleancut.format.{Channels, FrameName, StoreCut}
import io.cleancut.format.cut.{ChannelCourse, ChannelReading, ChannelReport, SealedFrame}
import io.cleancut.protocol._

/**
 * The pending checkpoint of one epoch: its state, its ledger with the in-flight rows, the frames
 * that the driver holds, and the time of its first capture. A run creates one for each epoch, so
 * nothing of an earlier epoch is left. Guarded by the lock of the [[RunRegistry]]; it makes no
 * request.
 *
 * @param budget
 *   limit of the frames that it holds
 */
final private[coordinator] class EpochRun(
    val ledger: EpochLedger,
    initial: EpochState,
    budget: FrameBudget
) {
  import EpochRun.MaxHeldBytes

  private var current = initial
  private var held = Option.empty[HeldFrames]
  private val early = new EarlyFrames(budget.room(MaxHeldBytes), SegmentPacker.FullBytes)
  private var startNs = Option.empty[Long]

  def epoch: Long = ledger.epoch

  def channels: EpochChannels = ledger.channels

  def state: EpochState = current

  /** Changes the state by [[EpochState.decide]], and applies the effect. */
  def on(event: EpochState.Event): Unit = {
    val (next, action) = EpochState.decide(current, event)
    current = next
    action match {
      case EpochState.Act.Nothing    => ()
      case EpochState.Act.CloseEpoch => close()
      case EpochState.Act.KeepFrames =>
        held = Some(new HeldFrames(epoch, budget.room(MaxHeldBytes)))
    }
  }

  /** Whether the driver holds the frame; otherwise it must be durable before its task continues. */
  def offer(frame: SealedFrame): Boolean =
    frame.name.version.number - 1 == epoch &&
      (if (state.isHeld) held.exists(_.offer(frame)) else mayWait(frame) && gathers(frame))

  /** The output of an earlier run may be visible, so frames stay as durable as they were then. */
  private def mayWait(frame: SealedFrame): Boolean =
    frame.attempt != SealedFrame.Maintenance && state.sealedBefore.isEmpty &&
      !Channels.isChannel(frame.name.store)

  private def gathers(frame: SealedFrame): Boolean =
    if (ledger.lacksOtherThan(frame.name.store)) early.offer(frame)
    else {
      // The last frame is written together with those before it.
      val isLast = !early.isEmpty
      if (isLast) early.add(frame)
      isLast
    }

  /** The held frames that must be written before the next task continues. */
  def due(): Option[EarlyFrames.Write] = {
    val isLast = ledger.mayBeComplete && !early.isEmpty && !state.isHeld
    Option.when(isLast || early.isFull)(early.take())
  }

  def wrote(write: EarlyFrames.Write): Unit = early.wrote(write)

  def failed(write: EarlyFrames.Write): Unit = early.failed(write)

  /**
   * Returns the frames that are not durable yet, and holds no more from now on. Frames of the
   * sealed attempt come last, and so override those of an earlier action.
   */
  def release(): Seq[SealedFrame] = early.close() ++ held.toSeq.flatMap(_.close())

  /** The frames that [[release]] returned are durable. */
  def released(): Unit = {
    held.foreach(_.forget())
    early.forget()
  }

  /** Forgets all frames. */
  def close(): Unit = {
    release()
    released()
  }

  /** Whether a task may leave rows of a shuffle input in flight. */
  def mayDefer(task: ChannelTask): Boolean =
    state.of(task.epoch).mayDefer(task.capture) && !channels.isWhole(task.channel)

  /**
   * A task attempt begins to read a shuffle input, which the ledger has registered.
   *
   * @param stored
   *   in-flight rows of the last cut
   */
  def openChannel(
      task: ChannelTask,
      stored: Option[StoreCut],
      isDeferring: Boolean,
      nowNs: Long
  ): ChannelOpened = {
    val decided = channels.decision(task.channel)
    if (isDeferring) {
      startNs = startNs.orElse(Some(nowNs))
      channels.stragglers.started(task.attempt, task.channel, task.partitions, nowNs)
    }
    ChannelOpened(
      stored.map(rowsOf),
      decided.map(d => (d.report, d.frame.flatMap(rowsOf(d, _)))),
      isDeferring,
      isDeferring && channels.stragglers.overtaken(task.attempt),
      state.finishing.isDefined
    )
  }

  private def rowsOf(chain: StoreCut): ChannelRows = {
    val (_, version, place) = chain.frames.last
    ChannelRows.Placed(version, place)
  }

  private def rowsOf(decision: Decision, frame: FrameName): Option[ChannelRows] = {
    def inSeal =
      state.sealedBefore.flatMap(_.of(frame.store)).filter(_.version == frame.version).map(rowsOf)
    def placed = ledger
      .placed(decision.attempt, frame.store)
      .map(placed => ChannelRows.Placed(frame.version, placed.place))
    def inMemory =
      held.flatMap(_.find(decision.attempt, frame)).map(ChannelRows.Held(frame.version, _))
    inSeal.orElse(placed).orElse(inMemory)
  }

  /** A task attempt has read a shuffle input to its end. */
  def arrived(attempt: Long, report: ChannelReport, reading: ChannelReading, nowNs: Long): Unit = {
    val course = startNs.map { startNs =>
      def ms(ns: Long) = NANOSECONDS.toMillis(ns - startNs)
      ChannelCourse(
        reading.rowsReplayed,
        reading.bytesInFlight,
        reading.rowsBeyondBound,
        ms(nowNs),
        channels.stragglers.overtakenNs(attempt).map(ms),
        reading.captureNs.map(NANOSECONDS.toMillis(_))
      )
    }
    channels.report(attempt, report, course)
    channels.stragglers.arrived(attempt, report.channel, nowNs)
  }

  /** The attempts that are overtaken now, and were not returned before. */
  def tick(capture: Capture, drains: Drains, nowNs: Long): Seq[Long] = {
    if (channels.stragglers.isRunning) {
      for (limit <- capture.maxEpochNs; start <- startNs if nowNs - start >= limit)
        channels.stragglers.cutNow(nowNs)
      val isDraining = startNs.exists(start => drains.mayContinue(capture, nowNs - start))
      channels.stragglers.tick(if (isDraining) CaptureMode.Aligned else capture.mode, nowNs)
    }
    channels.stragglers.takeOvertaken()
  }

  /** Time from its first capture to the last arrival of a task that was not overtaken. */
  def onTimeNs: Option[Long] =
    for (start <- startNs; end <- channels.stragglers.lastOnTimeNs) yield end - start
}

private object EpochRun {
  private val MaxHeldBytes = 64L << 20
}
