package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import scala.util.Try

import org.slf4j.LoggerFactory

import io.cleancut.base.{SharedStart, StateVersion}
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.protocol.{EpochState, Refusal}

/**
 * Writes the claims of first epochs before the output of a run may become visible. An earlier run
 * may be about to seal the same epoch with in-flight rows that this run has not found. Later runs
 * must not follow that seal: of several seals, only the one of the latest run counts.
 *
 * No task of an epoch is answered before its claim exists. Unless the sink will seal the epoch, no
 * task is answered before the epoch's entry of the offset log exists either. At most one thread
 * writes a claim at a time, and others wait for it. Requests are made without the lock of the
 * [[RunRegistry]].
 */
final private[coordinator] class EpochClaims(runs: RunRegistry, seals: SealWriter) {
  import EpochClaims._
  import runs.{archive, clock, runtime}

  // All tasks of the epoch wait for this one request, and no other task does.
  private val claims = new SharedStart(claimFirst, runtime.beforeWait)

  /**
   * Completes when requests of tasks of a run need no request to the object store: the run has
   * begun, and has planned and claimed the epoch in which the task opens something. Occupies no
   * thread except one of the runtime.
   *
   * @param epoch
   *   the epoch in which the task opens something
   * @param isToWrite
   *   whether the task is about to write frames
   */
  def ready(
      runId: String,
      epoch: Option[Long],
      isToWrite: Boolean = false
  ): CompletableFuture[Unit] =
    runs.started(runId).thenCompose {
      case Right(run) if epoch.exists(isToClaim(run, _)) =>
        claims(runId, runtime.requests).thenApply[Unit](_ => ())
      // A failure is the answer of `claimed`.
      case Right(run) if isToWrite || epoch.exists(waits(run, _)) => run.writer.ended
      case _                                                      => Ready
    }

  /** To be called before a task of an epoch is answered. */
  def claimed(runId: String, epoch: Long): Either[Refusal, QueryRun] =
    runs.runOf(runId).flatMap { run =>
      if (isToClaim(run, epoch)) claims.get(runId).toLeft(run)
      else if (waits(run, epoch)) planned(run)
      else Right(run)
    }

  /** To be called before frames are written: they follow the entry of their epoch. */
  def planned(run: QueryRun): Either[Refusal, QueryRun] =
    Try(run.writer.await()).toEither.left.map(e => Refusal.Failed(e.toString)).map(_ => run)

  /** Of an epoch that the sink will seal, nothing is visible or durable before the seal. */
  private def waits(run: QueryRun, epoch: Long) =
    runs.locked(run.epoch.epoch == epoch && !run.at(epoch).isHeld)

  /**
   * Writes the entry of the offset log of an epoch: concurrently with the first steps of the epoch,
   * if the run has sealed the epoch before. Then no row of the epoch is visible before the sink
   * seals it.
   *
   * @return
   *   completes when the entry exists
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, another run owns the query
   */
  def plan(runId: String, epoch: Long)(write: => Unit): CompletableFuture[Unit] =
    begin(runId)(_.at(epoch))(write)

  /** The same for an entry of a source's log, which precedes the entry of the current epoch. */
  def record(runId: String)(write: => Unit): CompletableFuture[Unit] =
    begin(runId)(_.epoch.state)(write)

  private def begin(runId: String)(state: QueryRun => EpochState)(
      write: => Unit
  ): CompletableFuture[Unit] = {
    // A fenced run may have a cut in its queue, which the entry would precede.
    val run = runs.ifBegun(runId)
    run.foreach(runs.handover.refuseNext)
    run.filter(current => runs.locked(state(current).followsSealed)) match {
      case Some(current) => current.writer.begin(current.writing(write))
      case None          =>
        run.foreach(_.writer.await())
        run.fold(write)(_.writing(write))
        Ready
    }
  }

  /** To be called before a seal is written: a claim of the same epoch would have its name. */
  def awaitOthers(runId: String): Unit = claims.awaitOthers(runId)

  private def isToClaim(run: QueryRun, epoch: Long) = runs.locked(run.at(epoch).isToClaim)

  private def claimFirst(runId: String): Option[Refusal.Fenced] = runs.runOf(runId) match {
    case Left(why)                               => Some(why)
    case Right(run) if isToClaim(run, run.first) => claim(run, run.first)
    case _                                       => None
  }

  /**
   * Writes the claim as a seal of this run: a copy of the seal that it follows, or an empty one.
   */
  private def claim(run: QueryRun, epoch: Long): Option[Refusal.Fenced] = {
    val followed = run.at(epoch).sealedBefore
    val what = followed.fold("runs from its beginning")(s => s"follows the seal of ${s.run.runId}")
    logger.info(s"Run ${run.id.runId} of ${archive.location} claims epoch $epoch, which $what")
    // An epoch that runs from its beginning may have no offset entry yet: in real-time mode Spark
    // writes the entry when the epoch is over.
    val empty = seals
      .of(run, epoch, Nil, offsets = "")
      .copy(isClaim = true)
    seals.write(
      run,
      followed.fold(empty) { seal =>
        seal.copy(run = run.id, token = StateVersion.newId(clock), writtenMs = clock.wallMs())
      }
    )
    // Either a later owner has seen the object, or this check finds the later owner.
    val owner = runs.laterOwner(run)
    if (owner.isEmpty) runs.locked(run.epoch.on(EpochState.Claim(epoch)))
    owner.map(Refusal.Fenced(_))
  }
}

private object EpochClaims {
  private val Ready = CompletableFuture.completedFuture(())
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}
