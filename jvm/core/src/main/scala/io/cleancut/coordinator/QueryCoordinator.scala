package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import scala.util.control.NonFatal

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.coordinator.state._
import io.cleancut.cutstore.{CutArchive, Notes, NotesWatch}
import io.cleancut.cutstore.usage.Sender
import io.cleancut.format.{PlacedFrame, StoreCut}
import io.cleancut.format.cut._
import io.cleancut.history.SlowTally
import io.cleancut.protocol.{Ack, EpochPlan, Refusal}

/**
 * The coordinator of one query, on its driver: collects the reports of tasks, and commits each
 * epoch with its cut. A run begins with its first report or commit and takes ownership then. Only
 * the latest run that is known here may report. A driver has one coordinator for each run, see
 * [[DriverQuery]].
 *
 * It is composed of a [[RunRegistry]], whose lock guards all state, and of collaborators, each of
 * which performs one step of an epoch. The latest run has one [[EpochRun]] at a time for the
 * current epoch. A commit closes it and creates the next one. All methods may be called from any
 * thread. Methods with a run id may make requests.
 *
 * @param host
 *   host name in the owner object
 */
final class QueryCoordinator(
    archive: CutArchive,
    logs: SparkLogs,
    host: String,
    runtime: CutsRuntime
) extends AutoCloseable {
  private[coordinator] val runs = new RunRegistry(archive, logs, host, runtime)
  private val watchedNotes =
    new NotesWatch(() => archive.notes(), runtime.clock, runtime.background)

  private val seals = new SealWriter(runs)
  private val claims = new EpochClaims(runs, seals)
  private val barrier = new InFlightBarrier(runs)
  private val frames = new FrameCollector(runs, claims)
  private val stores = new EpochStores(runs)
  private val pages = new CutPages(runs)
  private val operation = new OfflineEpochRun(runs, frames, stores)
  private val sealer = new EpochSealer(runs, claims, frames, stores, seals, pages)
  private val finisher = new EpochFinisher(runs, stores)
  private val sources = new CommitSources(runs, stores, finisher)
  private val maintenance = new CutMaintenance(runs, pages)
  private val committer =
    new EpochCommitter(runs, frames, stores, sources, pages, maintenance, watchedNotes)

  def this(archive: CutArchive, logs: SparkLogs, host: String, clock: Clock) =
    this(archive, logs, host, CutsRuntime.onThreads(archive.store, clock))

  // Runs: RunRegistry.
  def begin(runId: String): Begun = runs.begin(runId)
  def atStart(runId: String, name: String)(action: => Unit): Unit =
    runs.atStart(runId, name)(action)
  def endRun(runId: String): Unit = runs.endRun(runId)
  def checkOwner(runId: String): Unit = runs.checkOwner(runId)
  def endIfAwaited(runId: String): Unit = runs.endIfAwaited(runId)
  private[cleancut] def fenceRunsOf(earlier: QueryCoordinator): Unit =
    runs.fenceRunsOf(earlier.runs)
  private[cleancut] def hasFenced(runId: String): Boolean = runs.hasFenced(runId)

  // Claims of first epochs: EpochClaims.
  def ready(
      runId: String,
      epoch: Option[Long],
      isToWrite: Boolean = false
  ): CompletableFuture[Unit] = claims.ready(runId, epoch, isToWrite)
  def plan(runId: String, epoch: Long)(write: => Unit): CompletableFuture[Unit] =
    claims.plan(runId, epoch)(write)
  def record(runId: String)(write: => Unit): CompletableFuture[Unit] =
    claims.record(runId)(write)

  // Shuffle inputs of tasks: InFlightBarrier.
  def arrived(
      runId: String,
      attempt: Long,
      report: ChannelReport,
      reading: ChannelReading = ChannelReading.Nothing
  ): Either[Refusal, Unit] = barrier.arrived(runId, attempt, report, reading)
  def inFlight(runId: String): Either[Refusal, Seq[StoreCut]] = barrier.inFlight(runId)
  def lastTimestampMs(runId: String): Option[Long] = barrier.lastTimestampMs(runId)
  def isDecidedBefore(runId: String, epoch: Long): Boolean = barrier.isDecidedBefore(runId, epoch)
  def alignedBecause(runId: String, reasons: Map[Long, String]): Unit =
    barrier.alignedBecause(runId, reasons)
  def pysparkLoopBecause(runId: String, reasons: Map[Long, String]): Unit =
    barrier.pysparkLoopBecause(runId, reasons)
  def reasons: OperatorReasons = barrier.reasons
  def awaitOvertaken(
      runId: String,
      executor: String,
      known: Set[Long]
  ): CompletableFuture[Set[Long]] = barrier.awaitOvertaken(runId, executor, known)
  def cutNow(): Boolean = barrier.cutNow()
  def tick(): Boolean = barrier.tick()

  // Stores and frames of tasks: FrameCollector.
  def start(runId: String, task: TaskStart): Either[Refusal, TaskStarted] =
    frames.start(runId, task)
  def accepted(store: StoreId, version: Long): Option[String] = frames.accepted(store, version)
  def chain(runId: String, store: StoreId, version: Long): Either[Refusal, Option[StoreCut]] =
    frames.chain(runId, store, version)
  def fail(runId: String, attempt: Long): Unit = frames.fail(runId, attempt)
  def recordSender(runId: String, attempt: Long, from: Sender): Unit =
    frames.recordSender(runId, attempt, from)
  def writer(runId: String): Either[Refusal, RunId] = frames.writer(runId)
  def announce(runId: String, segment: String, version: Long): Either[Refusal, Unit] =
    frames.announce(runId, segment, version)
  def deliver(
      runId: String,
      made: Delivery
  ): Either[Refusal, CompletableFuture[Seq[Option[Ack]]]] = frames.deliver(runId, made)
  def report(runId: String, frame: PlacedFrame): CompletableFuture[Ack] =
    frames.report(runId, frame)
  def submit(runId: String, frame: SealedFrame): Option[CompletableFuture[Ack]] =
    frames.submit(runId, frame)

  // The pre-commit: EpochSealer, EpochFinisher.
  def hold(runId: String, epoch: Long): Unit = sealer.hold(runId, epoch)
  def seal(runId: String, epoch: Long, output: Option[String] = None): Unit =
    sealer.seal(runId, epoch, output)
  def sealedOutput(runId: String, epoch: Long): Option[String] =
    finisher.sealedOutput(runId, epoch)
  def finish(runId: String, epoch: Long): Boolean = finisher.finish(runId, epoch)

  // The commit: EpochCommitter.
  def commit(
      runId: String,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan] = None
  ): String = committer.commit(runId, epoch, entry, plan)

  /** The epochs that sinks have published, up to the last that is committed. */
  def sinks(runId: String, epoch: Long): SinkEpochs = {
    val run = runs.requireOwner(runId, epoch)
    runs.locked(run.ledger.sinks)
  }

  /** Sinks, by the keys of their ledgers, have published an epoch; its cut records that. */
  def published(runId: String, epoch: Long, sinks: Set[String]): Unit = {
    val run = runs.requireOwner(runId, epoch)
    runs.locked(run.ledger.published(epoch, sinks))
  }

  def enqueue(
      runId: String,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan] = None
  )(written: String => Unit): String =
    committer.enqueue(runId, epoch, entry, plan)(written)

  /**
   * Returns when the last cut, and the entry of the next epoch if there is one, exist.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, another run owns the query, which may repeat the last epoch
   */
  def awaitWrites(runId: String): Unit = runs.ifBegun(runId).foreach(_.writer.await())

  /** Same for the current run, up to a limit and regardless of failures. */
  def awaitWrites(limitMs: Long): Unit = runs.current.foreach(_.writer.awaitEnd(limitMs))

  /** Throws the failure of a write that no call has reported yet. */
  def checkWrites(runId: String): Unit = writerOf(runId).foreach(_.checkFailure())

  /** Writes entries of Spark's logs that an operation creates; see [[QueryRun.writing]]. */
  def writing[A](runId: String)(write: => A): A =
    runs.ifCurrent(runId).fold(write)(_.writing(write))

  /** Declares whether the cut of an epoch may be written while the next epoch runs. */
  def pipeline(runId: String, how: Pipelining): Unit = {
    runs.within(runId)(_.pipelining = how)
    ()
  }

  private def writerOf(runId: String) = runs.ifCurrent(runId).map(_.writer)

  // Epochs of offline operations: OfflineEpochRun.
  def replace(
      runId: String,
      epoch: Long,
      stores: Set[StoreId],
      inFlight: Option[InFlightSource] = None,
      sinks: SinkEpochs = SinkEpochs.Empty
  ): Unit = operation.replace(runId, epoch, stores, inFlight, sinks)
  def cancel(runId: String): Unit = operation.cancel(runId)
  def refer(runId: String, epoch: Long, bases: Seq[SealedFrame], segments: Set[String]): Unit =
    operation.refer(runId, epoch, bases, segments)
  def settle(runId: String, epoch: Long): Unit = operation.settle(runId, epoch)
  def settled(runId: String, epoch: Long): Seq[StoreCut] = operation.settled(runId, epoch)

  /** Keeps the cut of an epoch under a name; see [[io.cleancut.cutstore.Savepoints.pin]]. */
  def pin(name: String, epoch: Long): Unit = archive.savepoints.pin(name, epoch)

  def unpin(name: String): Boolean = archive.savepoints.unpin(name)

  /** The checkpoints that this one continues. They do not change during a run. */
  lazy val lineage: Lineage = archive.lineage()

  /** The last cut of the current run, if it has begun. */
  def lastCut: Option[Cut] = runs.locked(runs.current.flatMap(_.ledger.lastCut))

  /** Request timeout of the object store. */
  def requestTimeoutMs: Long = archive.store.requestTimeoutMs

  /** The status of the query. Requests the last cut from the store if no run has begun. */
  def status: CutsStatus = {
    val stored = if (runs.current.isEmpty) archive.cuts.last().map(_.head) else None
    statusAfter(stored)
  }

  /** The figures of the current run for metrics, without a request; None before it has begun. */
  def figures: Option[QueryFigures] = runs.current.map { run =>
    new QueryFigures(statusAfter(None), run.begun.committed, watchedNotes.last)
  }

  private def statusAfter(stored: Option[Cut]): CutsStatus = runs.locked {
    val run = runs.current
    val cut = run.fold(stored)(_.ledger.lastCut)
    val committed = run.map(_.committed).orElse(cut.map(_.epoch))
    CutsStatus(
      archive.location,
      run.map(_.id),
      committed.filter(_ >= 0),
      run.map(_.ledger.epoch.progress),
      run.toSeq.flatMap(_.meter.slowest),
      committer.last,
      runs.usage(),
      cut.toSeq.flatMap(_.channels),
      cut.fold(Map.empty[StoreId, ChannelCourse])(_.courses),
      run.fold(OperatorReasons.None)(_.reasons),
      runtime.watcher.fold(SlowTally.None)(_.slow),
      run.toSeq.flatMap(_.collector.unreadable),
      run.flatMap(_.pipelining.reason)
    )
  }

  /** The markers of restore tests and replicas, read from the store. */
  def notes(): Notes = watchedNotes.refresh()

  /** The markers of the last read; they are read again in the background. */
  def lastNotes: Option[Notes] = watchedNotes.last

  /**
   * Ends the background work of the run, which has ended. No task waits for an answer afterwards.
   */
  override def close(): Unit = {
    runs.close()
    runtime.packer.close()
    runs.locked(runs.current.toSeq.flatMap(_.close())).foreach(_())
    pages.await()
    runtime.watcher.foreach(_.close(() => isCheckpointStored))
    logs.close()
  }

  private def isCheckpointStored =
    try runs.current.forall(runs.isCheckpointStored)
    catch { case NonFatal(_) => true }
}
