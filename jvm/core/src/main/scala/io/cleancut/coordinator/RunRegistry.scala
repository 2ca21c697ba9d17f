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
 * The runs of one query. Only the latest one that is known here may report and commit. A run begins
 * with its first report or commit, and takes the ownership then.
 *
 * Its lock guards the whole state of the coordinator of the query: the latest run with all that a
 * [[QueryRun]] holds. No request is made while it is held. Methods of this class take the lock
 * themselves; the collaborators of the coordinator take it by [[locked]].
 *
 * @param host
 *   for the owner object
 */
final private[coordinator] class RunRegistry(
    val archive: CutArchive,
    val logs: SparkLogs,
    host: String,
    val runtime: CutsRuntime
) {
  private var latest = Option.empty[QueryRun]
  private val book = new UsageBook
  private var past = Set.empty[String]
  @volatile private var closed = false
  private val starts = new SharedStart(start, runtime.beforeWait)
  private val newRuns = new RunStart(archive, logs, host, runtime, () => usage(), () => closed)

  def clock: Clock = runtime.clock

  lazy val maintenance: Maintenance =
    runtime.maintenance.getOrElse(Maintenance.unasked(archive.location))

  /** Runs what reads or changes the state of the coordinator, and does no request. */
  def locked[A](body: => A): A = synchronized(body)

  /** The latest run, if one has begun. */
  def current: Option[QueryRun] = locked(latest)

  /** Whether the run has ended and no task waits for an answer. */
  def isClosed: Boolean = closed

  /** Ends the work in the background. */
  def close(): Unit = closed = true

  /** Notes the usage of the store that a process has reported. */
  def heard(from: Sender): Unit = locked(book.heard(from))

  def within[A](runId: String)(act: QueryRun => A): Either[Refusal, A] =
    runOf(runId).map(run => synchronized(act(run)))

  def usage(): UsageBook.Shares = synchronized {
    book.now(Usage(archive.store.counts, runtime.packer.written))
  }

  def believed(runId: String, epoch: => Long): QueryRun =
    runOf(runId).fold(by => throw Errors.fenced(archive.location, epoch, by.owner), identity)

  /**
   * A run takes the ownership, if it has not done so yet, and learns what it goes on behind. It
   * reads Spark's logs afterwards.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def begin(runId: String): Begun = believed(runId, next).begun

  /** Does something at the start of a run, once for each name. */
  def atStart(runId: String, name: String)(act: => Unit): Unit = {
    val run = believed(runId, next)
    if (synchronized(run.isToDo(name))) act
  }

  /**
   * A run has ended, and nothing of it will be written any more. It says so, unless a run before it
   * may still work: the next one, which is not to take itself for alone then, finds out.
   */
  def ended(runId: String): Unit =
    synchronized(latest.filter(of => of.id.runId == runId && of.maySayEnded)).foreach { run =>
      if (isStored(run)) archive.owners.end(run.id.generation)
      run.hasEnded = true
    }

  /**
   * Whether the checkpoint of a run is there: a directory that was deleted is not to come back with
   * what the end of the run writes.
   */
  def isStored(run: QueryRun): Boolean = archive.owners.isTaken(run.id.generation)

  /** Runs that another coordinator of this driver had are not believed any more. */
  def follow(earlier: RunRegistry): Unit = {
    val before = earlier.seen
    synchronized(past ++= before)
  }

  def hasFollowed(runId: String): Boolean = synchronized(past(runId))

  private def seen: Set[String] = synchronized(past ++ latest.map(_.id.runId))

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, if another run owns the query by now
   */
  def checkOwner(runId: String): Unit = checkOwner(believed(runId, next), next)

  def checkOwner(run: QueryRun, epoch: Long): Unit =
    laterOwner(run).foreach(owner => throw Errors.fenced(archive.location, epoch, owner))

  /** Leaves out the request if the owner was checked after the last cut, and not longer ago. */
  def checkOwnerUnless(run: QueryRun, epoch: Long, maxAgeNs: Long): Unit =
    if (!run.lookedNs.exists(clock.monotonicNs() - _ < maxAgeNs)) checkOwner(run, epoch)

  /**
   * The run before this one may have committed the epoch after Spark had looked for it.
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
  def laterOwner(run: QueryRun): Option[String] = {
    val next = run.id.generation + 1
    if (archive.owners.isTaken(next)) {
      val owners = archive.owners.latest(next)
      val by = owners.headOption.fold(s"generation $next")(_.toString)
      run.followedBy = Some((by +: Owner.rivalry(owners).toSeq).mkString("; "))
    }
    run.followedBy
  }

  /** The run, which begins here if nothing of it has been seen; or why it is not believed. */
  def runOf(runId: String): Either[Refusal.Fenced, QueryRun] =
    known(runId).getOrElse(starts.get(runId))

  /** The same when the start is over, which is left to a thread of the runtime's. */
  def started(
      runId: String
  ): CompletableFuture[Either[Refusal.Fenced, QueryRun]] =
    known(runId).fold(starts(runId, runtime.requests))(CompletableFuture.completedFuture(_))

  private def known(runId: String): Option[Either[Refusal.Fenced, QueryRun]] = synchronized {
    latest match {
      case Some(run) if run.id.runId == runId =>
        Some(run.followedBy.map(Refusal.Fenced(_)).toLeft(run))
      case _ if past(runId) =>
        Some(Left(Refusal.Fenced(s"run ${latest.fold("")(_.id.runId)} of the same driver")))
      case _ => None
    }
  }

  // The store may take its time: the monitor is for what others may learn meanwhile.
  private def start(runId: String): Either[Refusal.Fenced, QueryRun] = known(runId).getOrElse {
    if (closed) throw new IllegalStateException(s"run $runId of ${archive.location} has ended")
    val run = newRuns.start(runId)
    // What it has found a later owner has found too, or else that one is seen here.
    val owner = laterOwner(run)
    synchronized {
      past ++= latest.map(_.id.runId)
      latest = Some(run)
    }
    owner.map(Refusal.Fenced(_)).toLeft(run)
  }

  /** The epoch that the latest run works on. */
  private def next: Long = synchronized(latest.fold(0L)(_.ledger.lastCommitted + 1))

  /** The identity of the segments that the driver writes in an epoch. */
  def segmentsOf(run: QueryRun, epoch: Long): SegmentIdentity =
    SegmentIdentity(epoch, Place.Driver, run.id.runId, run.id.generation)
}
