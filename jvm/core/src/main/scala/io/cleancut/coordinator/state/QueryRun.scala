package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.conf.Capture
import io.cleancut.cutstore.{PageTurn, Paging, StoredSize}
import io.cleancut.cutstore.gc.GarbageCollector
import io.cleancut.format.SealName
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut, RunId, SealedFrame, SinkEpochs}
import io.cleancut.history.UsualTimes
import io.cleancut.protocol._

/**
 * A run of a query: its identity, what it has learned at its start, and its epoch. Guarded by the
 * lock of the [[RunRegistry]], but for the volatile fields, and those of the query's own thread. It
 * does no request.
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

  /** Open requests of executors, which outlive an epoch. */
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
  private var capture = Capture.Off
  private var isTurning = false
  private val drains = new Drains
  private var atStart = Set.empty[String]

  /** Its first epoch. */
  val first: Long = ledger.lastCommitted + 1
  private var pending =
    new EpochRun(ledger.epoch, EpochState.first(first, ledger.lastCut.isDefined, seal), budget)

  /** The epoch that is under way. */
  def epoch: EpochRun = pending

  /** Where an epoch stands. */
  def at(epoch: Long): EpochState = pending.state.of(epoch)

  /**
   * Whether its end is to be told. Where a run before it had not said that it has ended, that one
   * may still plan an epoch, until this one has committed one.
   */
  def maySayEnded: Boolean = !hasEnded && (begun.isAlone || ledger.lastCut.exists(_.epoch >= first))

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

  /** The decisions of an epoch on its in-flight rows. */
  def decided(epoch: Long): Seq[ChannelReport] =
    if (pending.epoch != epoch) Nil
    else ledger.operation.flatMap(_.inFlight).fold(pending.channels.decisions)(_.reports)

  def courses(epoch: Long): Map[StoreId, ChannelCourse] =
    if (pending.epoch == epoch) pending.channels.decidedCourses else Map.empty

  def open(attempt: Long, store: StoreId, version: Long): Either[Refusal, Opened] =
    ledger.open(attempt, store, version).flatMap { opened =>
      at(version).finishing.fold[Either[Refusal, Opened]](Right(opened)) { from =>
        from
          .of(store)
          .map(of => opened.copy(needsBase = false, sealedAs = Some(of)))
          .toRight(Refusal.NotSealed(version, store))
      }
    }

  /** The epoch is committed with this cut, and the next one is under way. */
  def advance(cut: Cut): Unit = {
    pending.onTimeNs.foreach(drains.ended(capture, _))
    ledger.advance(cut)
    pending.on(EpochState.Commit(cut.epoch))
    begin()
    barrier.clear()
  }

  /** An offline operation makes all of the state again in an epoch; see [[QueryLedger.replace]]. */
  def replace(epoch: Long, stores: Set[StoreId], sinks: SinkEpochs): Unit = {
    ledger.replace(epoch, stores, sinks)
    begin()
  }

  private def begin(): Unit = {
    pending.close()
    pending = new EpochRun(ledger.epoch, at(ledger.epoch.epoch), budget)
  }

  def openChannel(task: ChannelTask, nowNs: Long): Either[Refusal, ChannelOpened] = {
    val state = at(task.epoch)
    if (task.capture != Capture.Off && !state.isHeld && state.finishing.isEmpty)
      aligned += task.channel.operator -> QueryRun.NotSealed
    val isDeferring = pending.mayDefer(task)
    ledger.openChannel(task, isDeferring).map { stored =>
      if (isDeferring) {
        capture = task.capture
        barrier.runs(task.attempt, task.executor)
      }
      pending.openChannel(task, stored, isDeferring, nowNs)
    }
  }

  def cutNow(nowNs: Long): Boolean = {
    val isDeferring = pending.state.mayDefer(capture)
    if (isDeferring) pending.channels.stragglers.cutNow(nowNs)
    isDeferring
  }

  /** Answers for the executors that have overtaken tasks, or have waited long enough. */
  def tick(nowNs: Long): Seq[() => Unit] = {
    barrier.overtake(pending.tick(capture, drains, nowNs))
    barrier.due(nowNs)
  }

  /** Whether the time may change something. */
  def isWatched: Boolean = pending.channels.stragglers.isRunning || barrier.isAwaited

  /** None if the frame has to be made durable by itself before its task goes on. */
  def keep(frame: SealedFrame): Option[Ack] = Option.when(pending.offer(frame))(ledger.hold(frame))

  /**
   * The run has ended, and keeps nothing.
   *
   * @return
   *   answers for those who wait for one
   */
  def close(): Seq[() => Unit] = {
    pending.close()
    barrier.due(Long.MaxValue)
  }
}

private object QueryRun {
  private val NotSealed = "the sink has not begun to seal the epoch when its tasks run"
}
