package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import io.cleancut.base.{Clock, SharedStart}
import io.cleancut.coordinator.state.{Begun, QueryRun}
import io.cleancut.cutstore.{CutArchive, Owner}
import io.cleancut.cutstore.usage.{Place, Sender, Usage, UsageBook}
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.protocol.Refusal
import io.cleancut.format.SegmentIdentity
import io.cleancut.format.cut.Cut

/**
 * The runs of one query. Only the latest run that is known here may report and commit. A run begins
 * with its first report or commit and takes ownership then.
 *
 * Its lock guards the complete state of the query's coordinator: the latest run with the contents
 * of its [[QueryRun]]. No request is made while the lock is held. Methods of this class take the
 * lock themselves; the collaborators of the coordinator take it by [[locked]].
 *
 * @param host
 *   host name in the owner object
 */
final private[coordinator] class RunRegistry(
    val archive: CutArchive,
    val logs: SparkLogs,
    host: String,
    val runtime: CutsRuntime
) {
  private var latest = Option.empty[QueryRun]
  private val book = new UsageBook
  // Runs that this driver has replaced, including those of earlier coordinators.
  private var fencedRuns = Set.empty[String]
  @volatile private var closed = false
  private val starts = new SharedStart(start, runtime.beforeWait)
  val handover = new Handover(archive, runtime)
  private val newRuns =
    new RunStart(archive, logs, host, runtime, () => usage(), () => closed, handover)

  def clock: Clock = runtime.clock

  lazy val maintenance: Maintenance =
    runtime.maintenance.getOrElse(Maintenance.unlimited(archive.location))

  /** Runs code that reads or changes the state of the coordinator and makes no request. */
  def locked[A](body: => A): A = synchronized(body)

  /** The latest run, if one has begun. */
  def current: Option[QueryRun] = locked(latest)

  /** The run, if it is the latest one. */
  def ifCurrent(runId: String): Option[QueryRun] = current.filter(_.id.runId == runId)

  /** Whether the run has ended and no task waits for an answer. */
  def isClosed: Boolean = closed

  /** Ends the background work. */
  def close(): Unit = closed = true

  /** Records the object store usage that a process has reported. */
  def recordSender(from: Sender): Unit = locked(book.recordSender(from))

  def within[A](runId: String)(action: QueryRun => A): Either[Refusal, A] =
    runOf(runId).map(run => synchronized(action(run)))

  def usage(): UsageBook.Shares = synchronized {
    book.now(Usage(archive.store.counts, runtime.packer.written))
  }

  /**
   * The run, which begins here if it is unknown.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, another run owns the query
   */
  def requireOwner(runId: String, epoch: => Long): QueryRun =
    runOf(runId).fold(by => throw fenced(by, epoch), identity)

  private def fenced(by: Refusal.Fenced, epoch: Long): CleancutException =
    Errors.fenced(archive.location, epoch, by.owner)

  /**
   * The run, if it has begun.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, another run owns the query
   */
  def ifBegun(runId: String): Option[QueryRun] =
    statusIfKnown(runId).map(_.fold(by => throw fenced(by, next), identity))

  /**
   * Begins a run, if it has not begun yet: it takes ownership and reads the state that it continues
   * from. It reads Spark's logs afterwards.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def begin(runId: String): Begun = requireOwner(runId, next).begun

  /** Performs an action at the start of a run, once for each name; it may create log entries. */
  def atStart(runId: String, name: String)(action: => Unit): Unit = {
    val run = requireOwner(runId, next)
    if (synchronized(run.isToDo(name))) run.writing(action)
  }

  /**
   * A run has ended and writes nothing more. Its end marker tells the next run that no other run is
   * active, so none is written while an earlier run may be active, or if the checkpoint is deleted.
   * Waits for the cut and the log entries that are being written.
   */
  def endRun(runId: String): Unit = {
    ifCurrent(runId).foreach(_.writer.awaitEnd(RunRegistry.EndPatienceMs))
    synchronized(latest.filter(run => run.id.runId == runId && run.mayRecordEnd)).foreach { run =>
      if (isCheckpointStored(run)) archive.owners.end(run.id.generation)
      run.hasEnded = true
    }
  }

  /**
   * Whether the checkpoint of a run exists. The end of a run must not create a deleted directory
   * again. A successor has just been found there, and waits for the end.
   */
  def isCheckpointStored(run: QueryRun): Boolean =
    run.successor.isDefined || archive.owners.isTaken(run.id.generation)

  /** Rejects runs of an earlier coordinator of this driver from now on. */
  def fenceRunsOf(earlier: RunRegistry): Unit = {
    val before = earlier.seen
    synchronized(fencedRuns ++= before)
  }

  def hasFenced(runId: String): Boolean = synchronized(fencedRuns(runId))

  private def seen: Set[String] = synchronized(fencedRuns ++ latest.map(_.id.runId))

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED if another run owns the query
   */
  def checkOwner(runId: String): Unit = checkOwner(requireOwner(runId, next), next)

  /** A successor that waits for the end of the run lets it complete its epoch (rule T2). */
  def checkOwner(run: QueryRun, epoch: Long): Unit =
    if (isFollowed(run) && !handover.isAwaited(run))
      throw Errors.fenced(archive.location, epoch, fencedBy(run))

  /** Ends a run between two epochs if a successor waits for that. */
  def endIfAwaited(runId: String): Unit =
    for (run <- ifCurrent(runId) if isFollowed(run) && handover.isAwaited(run))
      handover.stop(run)

  /**
   * Skips the request if the owner was checked after the last cut, and not longer ago than
   * `maxAgeNs`.
   */
  def checkOwnerUnless(run: QueryRun, epoch: Long, maxAgeNs: Long): Unit =
    if (!run.lookedNs.exists(clock.monotonicNs() - _ < maxAgeNs)) checkOwner(run, epoch)

  /**
   * Checks that no earlier run has committed the epoch after Spark read the commit log.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def checkOpen(run: QueryRun, epoch: Long): Unit =
    if (epoch <= locked(run.ledger.lastCommitted))
      throw committedBy(epoch, archive.cuts.head(epoch))

  /** The error of a run whose epoch another run has committed. */
  def committedBy(epoch: Long, cut: Option[Cut]): CleancutException = {
    val by = cut.fold("another run")(c => s"generation ${c.run.generation}, run ${c.run.runId},")
    Errors.fenced(archive.location, epoch, s"$by has committed the epoch")
  }

  /** The owner that has followed this run, if there is one. */
  def laterOwner(run: QueryRun): Option[String] = Option.when(isFollowed(run))(fencedBy(run))

  /** Whether the next generation exists. It is requested only until it has been found. */
  private def isFollowed(run: QueryRun): Boolean =
    run.fencedBy.isDefined || handover.isFollowed(run)

  /** Fences a run whose next generation exists; returns the later owner. */
  private def fencedBy(run: QueryRun): String = {
    val next = run.id.generation + 1
    val owners = archive.owners.latest(next)
    val by = owners.headOption.fold(s"generation $next")(_.toString)
    val described = (by +: Owner.rivalry(owners).toSeq).mkString("; ")
    run.fencedBy = Some(described)
    described
  }

  /** The run, which begins here if it is unknown; or the reason why it is refused. */
  def runOf(runId: String): Either[Refusal.Fenced, QueryRun] =
    statusIfKnown(runId).getOrElse(starts.get(runId))

  /** The same, completed when the start is over, which runs on a thread of the runtime. */
  def started(
      runId: String
  ): CompletableFuture[Either[Refusal.Fenced, QueryRun]] =
    statusIfKnown(runId).fold(starts(runId, runtime.requests))(CompletableFuture.completedFuture(_))

  /** The run, or the reason why it is fenced; None if the run has to be started first. */
  private def statusIfKnown(runId: String): Option[Either[Refusal.Fenced, QueryRun]] =
    locked(latest match {
      case Some(run) if run.id.runId == runId =>
        Some(run.fencedBy.map(Refusal.Fenced(_)).toLeft(run))
      case _ if fencedRuns(runId) =>
        val owner = latest.fold("a later run")(run => s"run ${run.id.runId}")
        Some(Left(Refusal.Fenced(s"$owner of the same driver")))
      case _ => None
    })

  // The start may be slow: the monitor stays free for requests that others can answer meanwhile.
  private def start(runId: String): Either[Refusal.Fenced, QueryRun] =
    statusIfKnown(runId).getOrElse {
      if (closed) throw new IllegalStateException(s"run $runId of ${archive.location} has ended")
      val StartedRun(run, isFollowed) = newRuns.start(runId)
      val owner = if (isFollowed) laterOwner(run) else None
      synchronized {
        fencedRuns ++= latest.map(_.id.runId)
        latest = Some(run)
      }
      owner.map(Refusal.Fenced(_)).toLeft(run)
    }

  /** The current epoch of the latest run. */
  private def next: Long = synchronized(latest.fold(0L)(_.ledger.lastCommitted + 1))

  /** The identity of the segments that the driver writes in an epoch. */
  def segmentsOf(run: QueryRun, epoch: Long): SegmentIdentity =
    SegmentIdentity(epoch, Place.Driver, run.id.runId, run.id.generation)
}

private object RunRegistry {

  /** Limit of the wait for the last writes of a run that ends. */
  private val EndPatienceMs = 30_000L
}
