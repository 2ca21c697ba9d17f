package io.cleancut.cuts

import java.util.concurrent.CompletableFuture

import org.slf4j.LoggerFactory

import io.cleancut.StateVersion
import io.cleancut.error.Errors
import io.cleancut.format.{Cut, Paged, SealName, StoreCut}

/**
 * What a run makes known of its first epoch before anything of it may be seen. A run before it may
 * be about to seal the same epoch with rows in flight, which this one has not found, and which a
 * later one must not follow: of several seals that of the latest run counts.
 */
trait EpochClaim extends QueryRuns {
  import EpochClaim._

  // All tasks of the epoch wait for the one request, and nobody else does.
  private val claims = new SharedStart(claimFirst, runtime.beforeWait)

  /**
   * Done when nothing that a task of a run asks for does a request any more: the run has begun, and
   * has claimed the epoch of which the task opens something. Holds no thread meanwhile but one of
   * the runtime's.
   */
  final def ready(runId: String, epoch: Option[Long]): CompletableFuture[Unit] =
    started(runId).thenCompose {
      case Right(run) if epoch.exists(isToClaim(run, _)) =>
        claims(runId, runtime.requests).thenApply[Unit](_ => ())
      case _ => CompletableFuture.completedFuture(())
    }

  /** To be called before a task of an epoch is answered. */
  final private[cuts] def claimed(runId: String, epoch: Long): Either[Refusal, QueryRun] =
    runOf(runId).flatMap { run =>
      if (isToClaim(run, epoch)) claims.get(runId).toLeft(run) else Right(run)
    }

  /** To be called before a seal is written: a claim of the same epoch would have its name. */
  final private[cuts] def awaitClaim(runId: String): Unit = claims.awaitOthers(runId)

  private def isToClaim(run: QueryRun, epoch: Long) = synchronized(run.at(epoch).isToClaim)

  private def claimFirst(runId: String): Option[Refusal.Fenced] = runOf(runId) match {
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
    val anew = seal(run, epoch, Nil, offsets = "")
      .copy(isClaim = true, paged = runtime.paging.map(_ => NoChains))
    writeSeal(
      run,
      followed.fold(anew) { of =>
        of.copy(run = run.id, token = StateVersion.newId(clock), writtenMs = clock.wallMs())
      }
    )
    // A later owner has seen the object, or else is seen here.
    val owner = laterOwner(run)
    if (owner.isEmpty) synchronized(run.on(EpochState.Claim(epoch)))
    owner.map(Refusal.Fenced(_))
  }

  final private[cuts] def seal(
      run: QueryRun,
      epoch: Long,
      stores: Seq[StoreCut],
      offsets: String
  ): Cut = Cut(
    epoch,
    run.id,
    StateVersion.newId(clock),
    clock.wallMs(),
    commit = "",
    offsets,
    stores,
    timings = Map.empty
  )

  /**
   * Writes the seal of a run. A run that repeats a failed seal may find its own object, since that
   * try can fail after the object was created: the same decisions on the same frames are sealed
   * then. The object cannot be replaced, so that a run with another result ends, and the next run
   * follows the object.
   */
  final private[cuts] def writeSeal(run: QueryRun, seal: Cut): Unit = {
    val name = SealName(seal.epoch, seal.run.generation)
    if (!archive.seal(seal)) {
      val stored = archive.readSeal(name, synchronized(run.ledger.lastCut))
      if (!stored.exists(hasSealed(_, seal))) {
        val owner =
          if (stored.exists(_.run == seal.run)) "this run, which has sealed another result before"
          else "another run of the same generation"
        throw Errors.fenced(archive.location, seal.epoch, owner)
      }
    }
    synchronized(run.sealWritten(name))
  }

  /** Whether an object is what an earlier try of the same run wrote for the same result. */
  private def hasSealed(stored: Cut, seal: Cut): Boolean =
    stored.run == seal.run && stored.isClaim == seal.isClaim && stored.output == seal.output &&
      stored.channels == seal.channels && versions(stored) == versions(seal)

  private def versions(cut: Cut) = cut.stores.map(of => of.store -> of.version).toMap
}

private object EpochClaim {
  private val NoChains = Paged(storeCount = 0, pages = Nil, window = Nil)
  private val logger = LoggerFactory.getLogger(classOf[QueryCuts])
}
