package io.cleancut.coordinator

import java.util.concurrent.TimeUnit.NANOSECONDS

import io.cleancut.base.StoreId
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.cutstore.{GarbageCollector, PageTurn, Paging, SegmentPacker, StoredSize}
import io.cleancut.format.{ChannelCourse, ChannelReading, ChannelReport, Channels}
import io.cleancut.history.UsualTimes
import io.cleancut.protocol.{
  Ack,
  ChannelOpened,
  ChannelRows,
  ChannelTask,
  Decision,
  Drains,
  EpochChannels,
  EpochState,
  Refusal,
  WrittenPages
}
import io.cleancut.format._

/**
 * A run of a query, as its coordinator knows it, which also guards it.
 *
 * @param seal
 *   of the first epoch, by an earlier run
 * @param collector
 *   deletes what the query does not need any more
 * @param budget
 *   for the frames that it keeps
 */
final private[cleancut] class QueryRun(
    val id: RunId,
    val ledger: QueryLedger,
    val meter: EpochMeter,
    seal: Option[Cut],
    val begun: Begun,
    val collector: GarbageCollector,
    budget: FrameBudget
) {
  val barrier = new Barrier
  var aligned = Map.empty[Long, String]

  /** Who owns the query in its place. */
  @volatile var followedBy = Option.empty[String]
  @volatile var hasEnded = false

  /** When it has last found, behind a cut, that nobody does. */
  @volatile var lookedNs = Option.empty[Long]

  /** What of the query is stored; None where nobody has looked. */
  @volatile var stored = Option.empty[StoredSize]

  // Of the query's own thread.
  val usual = new UsualTimes
  var wasLate = false
  var isSweepDue = false

  // The seals of this run whose epochs have cuts: the next sweep deletes them.
  private var sealNames = Set.empty[SealName]
  private var held = Option.empty[HeldFrames]
  private var early = noFrames
  private var capture = Capture.Off
  private var epochStartNs = Option.empty[Long]
  private var isTurning = false
  private val drains = new Drains

  /** Its first epoch. */
  val first: Long = ledger.lastCommitted + 1
  private var state = EpochState.first(first, ledger.lastCut.isDefined, seal)
  private var atStart = Set.empty[String]

  /**
   * Whether its end is to be told. Where a run before it had not said that it has ended, that one
   * may still plan an epoch, until this one has committed one.
   */
  def maySayEnded: Boolean = !hasEnded && (begun.isAlone || ledger.lastCut.exists(_.epoch >= first))

  /** Of the epoch that runs. */
  def channels: EpochChannels = ledger.epoch.channels

  /** Whether what is to be done at its start has not been begun yet. */
  def isToDo(name: String): Boolean = {
    val isNew = !atStart(name)
    atStart += name
    isNew
  }

  /** Pages that are to be written after a cut, unless others are being written. */
  def pagesDue(cut: Cut, paging: Paging): Option[PageTurn] = {
    val due = if (isTurning) None else paging.due(ledger.window, cut)
    isTurning = isTurning || due.isDefined
    due
  }

  /** It has written a seal. */
  def sealWritten(name: SealName): Unit = sealNames += name

  /** The seals of epochs that have cuts. */
  def servedSeals: Set[SealName] = sealNames.filter(_.epoch <= ledger.lastCommitted)

  /** They are deleted. */
  def forget(seals: Set[SealName]): Unit = sealNames --= seals

  /** They are; or it has failed. */
  def turned(pages: Option[WrittenPages]): Unit = {
    isTurning = false
    pages.foreach(ledger.turned)
  }

  def decided(epoch: Long): Seq[ChannelReport] =
    if (ledger.epoch.epoch != epoch) Nil
    else ledger.takenAlong.fold(channels.decisions)(_.reports)

  def courses(epoch: Long): Map[StoreId, ChannelCourse] =
    if (ledger.epoch.epoch == epoch) channels.decidedCourses else Map.empty

  /** Where an epoch stands. */
  def at(epoch: Long): EpochState = state.of(epoch)

  /** Something has happened to an epoch. */
  def on(event: EpochState.Event): Unit = {
    val (next, act) = EpochState.decide(state, event)
    state = next
    act match {
      case EpochState.Act.Nothing    => ()
      case EpochState.Act.LetGo      => letGo()
      case EpochState.Act.KeepFrames =>
        held.foreach(drop)
        held = Some(new HeldFrames(event.epoch, budget.room(QueryRun.MaxHeldBytes)))
    }
  }

  def open(attempt: Long, store: StoreId, version: Long): Either[Refusal, Opened] =
    ledger.open(attempt, store, version).flatMap { opened =>
      at(version).finishing.fold[Either[Refusal, Opened]](Right(opened)) { from =>
        from
          .of(store)
          .map(of => opened.copy(needsBase = false, sealedAs = Some(of)))
          .toRight(Refusal.NotSealed(version, store))
      }
    }

  def advance(cut: Cut): Unit = {
    for (start <- epochStartNs; end <- channels.stragglers.lastOnTimeNs)
      drains.ended(capture, end - start)
    ledger.advance(cut)
    on(EpochState.Commit(cut.epoch))
    early = noFrames
    barrier.clear()
    epochStartNs = None
  }

  def openChannel(task: ChannelTask, nowNs: Long): Either[Refusal, ChannelOpened] = {
    val epoch = at(task.epoch)
    val isDeferring = epoch.mayDefer(task.capture) && !channels.isWhole(task.channel)
    val isFinished = epoch.finishing.isDefined
    if (task.capture != Capture.Off && !epoch.isHeld && !isFinished)
      aligned += task.channel.operator -> QueryRun.NotSealed
    ledger.openChannel(task, isDeferring).map { stored =>
      val decided = channels.decision(task.channel)
      if (isDeferring) {
        capture = task.capture
        epochStartNs = epochStartNs.orElse(Some(nowNs))
        barrier.runs(task.attempt, task.executor)
        channels.stragglers.started(task.attempt, task.channel, task.partitions, nowNs)
      }
      ChannelOpened(
        stored.map(rowsOf),
        decided.map(d => (d.report, d.frame.flatMap(rowsOf(d, _)))),
        isDeferring,
        isDeferring && channels.stragglers.overtaken(task.attempt),
        isFinished
      )
    }
  }

  def arrived(attempt: Long, report: ChannelReport, reading: ChannelReading, nowNs: Long): Unit = {
    val course = epochStartNs.map { startNs =>
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

  def cutNow(nowNs: Long): Boolean = {
    val isDeferring = at(ledger.epoch.epoch).mayDefer(capture)
    if (isDeferring) channels.stragglers.cutNow(nowNs)
    isDeferring
  }

  def tick(nowNs: Long): Seq[() => Unit] = {
    if (channels.stragglers.isRunning) {
      for (limit <- capture.maxEpochNs; start <- epochStartNs if nowNs - start >= limit)
        channels.stragglers.cutNow(nowNs)
      val goesOn = epochStartNs.exists(start => drains.goesOn(capture, nowNs - start))
      channels.stragglers.tick(if (goesOn) CaptureMode.Aligned else capture.mode, nowNs)
    }
    barrier.overtake(channels.stragglers.takeOvertaken())
    barrier.due(nowNs)
  }

  /** Whether the time may change something. */
  def isWatched: Boolean = channels.stragglers.isRunning || barrier.isAwaited

  private def rowsOf(of: StoreCut): ChannelRows = {
    val (_, version, place) = of.frames.last
    ChannelRows.Placed(version, place)
  }

  private def rowsOf(decision: Decision, frame: FrameName): Option[ChannelRows] = {
    val earlier = seal.flatMap(_.of(frame.store)).filter(_.version == frame.version).map(rowsOf)
    earlier
      .orElse(
        ledger.epoch
          .placed(decision.attempt, frame.store)
          .map(placed => ChannelRows.Placed(frame.version, placed.place))
      )
      .orElse(
        held
          .flatMap(_.find(decision.attempt, frame))
          .map(ChannelRows.Held(frame.version, _))
      )
  }

  /** None if the frame has to be made durable by itself before its task goes on. */
  def keep(frame: SealedFrame): Option[Ack] = {
    val epoch = frame.name.version.number - 1
    val isKept =
      if (at(epoch).isHeld) held.exists(_.offer(frame)) else mayWait(frame, epoch) && gathers(frame)
    Option.when(isKept)(ledger.hold(frame))
  }

  /** What of the frames that were kept has to be written before a task goes on that has come. */
  def due(): Option[EarlyFrames.Write] = {
    val isLast = ledger.epoch.isHeardOf && !early.isEmpty && !at(ledger.epoch.epoch).isHeld
    Option.when(isLast || early.isFull)(early.take())
  }

  def wrote(write: EarlyFrames.Write): Unit = early.wrote(write)

  def failed(write: EarlyFrames.Write): Unit = early.failed(write)

  /**
   * What is not durable yet of an epoch, of which nothing is kept from now on. What the sink has
   * sealed comes last, and so counts before what an earlier action has made.
   */
  def release(epoch: Long): Seq[SealedFrame] = {
    val sealing = held.filter(_.epoch == epoch).fold(Seq.empty[SealedFrame])(_.close())
    if (epoch == ledger.epoch.epoch) early.close() ++ sealing else sealing
  }

  /** What [[release]] gave is durable. */
  def released(epoch: Long): Unit = {
    held.filter(_.epoch == epoch).foreach(_.forget())
    if (epoch == ledger.epoch.epoch) early.forget()
  }

  /**
   * The run has ended, and keeps nothing.
   *
   * @return
   *   answers for those who wait for one
   */
  def close(): Seq[() => Unit] = {
    letGo()
    held.foreach(drop)
    barrier.due(Long.MaxValue)
  }

  private def letGo(): Unit = {
    early.close()
    early.forget()
  }

  private def drop(frames: HeldFrames): Unit = {
    frames.close()
    frames.forget()
  }

  /** What an earlier run has let be seen already is left to be as durable as it was. */
  private def mayWait(frame: SealedFrame, epoch: Long): Boolean =
    epoch == ledger.epoch.epoch && frame.attempt != SealedFrame.Maintenance &&
      at(epoch).sealedBefore.isEmpty && !Channels.isChannel(frame.name.store)

  private def gathers(frame: SealedFrame): Boolean =
    if (ledger.epoch.isLackingBeside(frame.name.store)) early.offer(frame)
    else {
      // The last one is written together with those before it.
      val isLast = !early.isEmpty
      if (isLast) early.add(frame)
      isLast
    }

  private def noFrames =
    new EarlyFrames(budget.room(QueryRun.MaxHeldBytes), SegmentPacker.FullBytes)
}

private object QueryRun {
  private val MaxHeldBytes = 64L << 20

  private val NotSealed = "the sink has not begun to seal the epoch when its tasks run"
}
