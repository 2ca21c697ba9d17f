package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import org.slf4j.LoggerFactory

import io.cleancut.base.{SharedStart, StateVersion}
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.protocol.{EpochState, Refusal}

/**
 * Claims of first epochs, which a run writes before its output may become visible. A run before it
 * may be about to seal the same epoch with rows in flight, which this one has not found, and which
 * a later one must not follow: of several seals that of the latest run counts.
 *
 * No task of an epoch is answered before its claim exists. At most one thread writes a claim at a
 * time, and others wait for it; requests are made without the lock of the [[RunRegistry]].
 */
final private[coordinator] class EpochClaims(runs: RunRegistry, seals: SealWriter) {
  import EpochClaims._
  import runs.{archive, clock, runtime}

  // All tasks of the epoch wait for the one request, and nobody else does.
  private val claims = new SharedStart(claimFirst, runtime.beforeWait)

  /**
   * Done when nothing that a task of a run asks for does a request any more: the run has begun, and
   * has claimed the epoch of which the task opens something. Holds no thread meanwhile but one of
   * the runtime's.
   */
  def ready(runId: String, epoch: Option[Long]): CompletableFuture[Unit] =
    runs.started(runId).thenCompose {
      case Right(run) if epoch.exists(isToClaim(run, _)) =>
        claims(runId, runtime.requests).thenApply[Unit](_ => ())
      case _ => CompletableFuture.completedFuture(())
    }

  /** To be called before a task of an epoch is answered. */
  def claimed(runId: String, epoch: Long): Either[Refusal, QueryRun] =
    runs.runOf(runId).flatMap { run =>
      if (isToClaim(run, epoch)) claims.get(runId).toLeft(run) else Right(run)
    }

  /** To be called before a seal is written: a claim of the same epoch would have its name. */
  def awaitOthers(runId: String): Unit = claims.awaitOthers(runId)

  private def isToClaim(run: QueryRun, epoch: Long) = runs.locked(run.at(epoch).isToClaim)

  private def claimFirst(runId: String): Option[Refusal.Fenced] = runs.runOf(runId) match {
    case Left(why)                               => Some(why)
    case Right(run) if isToClaim(run, run.first) => claim(run, run.first)
    case _                                       => None
  }

  /** Writes it as a seal of this run: the one that it follows, or that it begins anew. */
  private def claim(run: QueryRun, epoch: Long): Option[Refusal.Fenced] = {
    val followed = run.at(epoch).sealedBefore
    val what = followed.fold("runs from its beginning")(s => s"follows the seal of ${s.run.runId}")
    logger.info(s"Run ${run.id.runId} of ${archive.location} says that epoch $epoch $what")
    // What runs from its beginning may have no entry of offsets yet: in real-time mode that is
    // written when the epoch is over.
    val anew = seals
      .of(run, epoch, Nil, offsets = "")
      .copy(isClaim = true)
    seals.write(
      run,
      followed.fold(anew) { of =>
        of.copy(run = run.id, token = StateVersion.newId(clock), writtenMs = clock.wallMs())
      }
    )
    // A later owner has seen the object, or else is seen here.
    val owner = runs.laterOwner(run)
    if (owner.isEmpty) runs.locked(run.epoch.on(EpochState.Claim(epoch)))
    owner.map(Refusal.Fenced(_))
  }
}

private object EpochClaims {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}
