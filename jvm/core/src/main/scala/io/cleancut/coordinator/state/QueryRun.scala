package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.conf.Capture
import io.cleancut.cutstore.{Owner, PageTurn, Paging, StoredSize}
import io.cleancut.cutstore.gc.GarbageCollector
import io.cleancut.format.SealName
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut, RunId, SealedFrame, SinkEpochs}
import io.cleancut.history.UsualTimes
import io.cleancut.protocol._

/**
 * A run of a query: its identity, the state that it read at its start, and its epoch. Guarded by
 * the lock of the [[RunRegistry]], except for the volatile fields and those of the query's thread.
 * It makes no request.
 *
 * @param seal
 *   seal of its first epoch by an earlier run
 * @param collector
 *   deletes unreferenced objects of the query
 * @param budget
 *   limit of the frames that it holds
 * @param writer
 *   writes cuts and log entries concurrently with epochs
 */
final private[cleancut] class QueryRun(
    val id: RunId,
    val ledger: QueryLedger,
    val meter: EpochMeter,
    seal: Option[Cut],
    val begun: Begun,
    val collector: GarbageCollector,
    budget: FrameBudget,
    val writer: EpochWriter
) {

  /** Open requests of executors, which outlive an epoch. */
  val barrier = new Barrier
  var reasons = OperatorReasons.None
  var pipelining = Pipelining.None

  /** Description of the later owner, for messages. */
  @volatile var fencedBy = Option.empty[String]
  @volatile var hasEnded = false

  /** The later owner that waits for the end of this run, once an ownership check has found it. */
  @volatile var successor = Option.empty[Owner]

  /** Time of the last ownership check after a cut that found no later owner. */
  @volatile var lookedNs = Option.empty[Long]

  /** Size of the stored objects; None if they have not been counted. */
  @volatile var stored = Option.empty[StoredSize]

  // Only used by the query's thread.
  val usual = new UsualTimes
  var wasLate = false
  var isSweepDue = false

  // The seals of this run whose epochs have cuts: the next garbage collection deletes them.
  private var sealNames = Set.empty[SealName]
  private var capture = Capture.Off
  private var isTurning = false
  private val drains = new Drains
  private var atStart = Set.empty[String]

  /** Its first epoch. */
  val first: Long = ledger.lastCommitted + 1

  @volatile private var hasFailed = false

  // Its last cut, while the cut is being written.
  private var unwritten = Option.empty[Cut]
  private var pending =
    new EpochRun(ledger.epoch, EpochState.first(first, ledger.lastCut.isDefined, seal), budget)

  /** The current epoch. */
  def epoch: EpochRun = pending

  /** The state of an epoch. */
  def at(epoch: Long): EpochState = pending.state.of(epoch)

  /**
   * Whether to write its end marker. If an earlier run has no end marker, that run may still plan
   * an epoch, until this run has committed one. An object of this run that is being written would
   * come after its end marker, and so may one whose write has failed.
   */
  def mayRecordEnd: Boolean =
    !hasEnded && writer.isIdle && !hasFailed &&
      (begun.isAlone || ledger.lastCut.exists(_.epoch >= first))

  /**
   * Writes a cut or entries of Spark's logs. If that fails, its objects may still appear: perhaps
   * only the response is missing.
   */
  def writing[A](write: => A): A =
    try write
    catch {
      case e: Throwable =>
        hasFailed = true
        throw e
    }

  /** Whether an action of its start has not begun yet. */
  def isToDo(name: String): Boolean = {
    val isNew = !atStart(name)
    atStart += name
    isNew
  }

  /** Pages to write after a cut, unless pages are being written. */
  def pagesDue(cut: Cut, paging: Paging): Option[PageTurn] = {
    val due = if (isTurning) None else paging.due(ledger.window, cut)
    isTurning = isTurning || due.isDefined
    due
  }

  /** The run has written a seal. */
  def sealWritten(name: SealName): Unit = sealNames += name

  /** The seals of epochs that have cuts. */
  def servedSeals: Set[SealName] = sealNames.filter(_.epoch <= committed)

  /** The last epoch that is committed: the ledger can be one epoch ahead (see [[decide]]). */
  def committed: Long = unwritten.fold(ledger.lastCommitted)(_.epoch - 1)

  /** The seals are deleted. */
  def forget(seals: Set[SealName]): Unit = sealNames --= seals

  /** The pages are written; None if the write failed. */
  def recordPages(pages: Option[WrittenPages]): Unit = {
    isTurning = false
    pages.foreach(ledger.recordPages)
  }

  /** The decisions of an epoch on its in-flight rows. */
  def decided(epoch: Long): Seq[ChannelReport] =
    if (pending.epoch != epoch) Nil
    else ledger.operation.flatMap(_.inFlight).fold(pending.channels.decisions)(_.reports)

  def courses(epoch: Long): Map[StoreId, ChannelCourse] =
    if (pending.epoch == epoch) pending.channels.decidedCourses else Map.empty

  /**
   * Opens a store for a task attempt at a version, which is the number of the epoch. If the epoch
   * is completed from the seal of an earlier run, the task takes over the sealed version, and its
   * own result is discarded.
   */
  def open(attempt: Long, store: StoreId, version: Long): Either[Refusal, Opened] =
    ledger.open(attempt, store, version).flatMap { opened =>
      at(version).finishing.fold[Either[Refusal, Opened]](Right(opened)) { seal =>
        seal
          .of(store)
          .map(chain => opened.copy(needsBase = false, sealedChain = Some(chain)))
          .toRight(Refusal.NotSealed(version, store))
      }
    }

  /**
   * The epoch is committed with this cut, and the next epoch begins.
   *
   * @param isStored
   *   false if the cut of another run is stored instead
   */
  def advance(cut: Cut, isStored: Boolean = true): Unit = {
    pending.onTimeNs.foreach(drains.recordEpoch(capture, _))
    ledger.advance(cut, isStored)
    pending.on(EpochState.Commit(cut.epoch))
    begin()
    barrier.clear()
  }

  /** Whether the next epoch may begin while the cut of this one is being written. */
  def mayCommitLater(epoch: Long): Boolean =
    pipelining.pipelines(epoch) && at(epoch).mayCommitLater && ledger.operation.isEmpty

  /** The epoch will be committed with this cut, and the next epoch begins meanwhile. */
  def decide(cut: Cut): Unit = {
    unwritten = Some(cut)
    advance(cut)
  }

  /** The cut of [[decide]] exists. */
  def wroteCut(): Unit = unwritten = None

  /** An offline operation replaces the complete state in an epoch; see [[QueryLedger.replace]]. */
  def replace(epoch: Long, stores: Set[StoreId], sinks: SinkEpochs): Unit = {
    ledger.replace(epoch, stores, sinks)
    begin()
  }

  /** The operation of the next epoch has failed; see [[QueryLedger.cancelReplacement]]. */
  def cancelReplacement(): Unit = {
    ledger.cancelReplacement()
    begin()
  }

  private def begin(): Unit = {
    pending.close()
    pending = new EpochRun(ledger.epoch, at(ledger.epoch.epoch), budget)
  }

  def openChannel(task: ChannelTask, nowNs: Long): Either[Refusal, ChannelOpened] = {
    val state = at(task.epoch)
    if (task.capture != Capture.Off && !state.isHeld && state.finishing.isEmpty)
      reasons =
        reasons.copy(aligned = reasons.aligned + (task.channel.operator -> QueryRun.NotSealed))
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

  /** Answers for the executors whose tasks were overtaken, or that have waited long enough. */
  def tick(nowNs: Long): Seq[() => Unit] = {
    barrier.overtake(pending.tick(capture, drains, nowNs))
    barrier.due(nowNs)
  }

  /** Whether the passage of time may have an effect. */
  def isWatched: Boolean = pending.channels.stragglers.isRunning || barrier.isAwaited

  /** None if the frame must be durable by itself before its task continues. */
  def keep(frame: SealedFrame): Option[Ack] = Option.when(pending.offer(frame))(ledger.hold(frame))

  /**
   * The run has ended, and holds no frames.
   *
   * @return
   *   answers to open requests
   */
  def close(): Seq[() => Unit] = {
    pending.close()
    barrier.due(Long.MaxValue)
  }
}

private object QueryRun {
  private val NotSealed = "the sink has not begun to seal the epoch before its tasks run"
}
