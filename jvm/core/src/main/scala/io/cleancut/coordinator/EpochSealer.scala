package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import io.cleancut.protocol.EpochState

/**
 * Pre-commit of an epoch, which the sink requests before its output becomes visible. When a seal
 * returns, the state of the epoch is durable, and no later run makes another decision on its rows.
 * Without state; requests are made without the lock of the [[RunRegistry]].
 */
final private[coordinator] class EpochSealer(
    runs: RunRegistry,
    claims: EpochClaims,
    frames: FrameCollector,
    stores: EpochStores,
    seals: SealWriter,
    pages: CutPages
) {
  import EpochSealer.SealLookNs
  import EpochState.SealMethod

  /**
   * Declares that the sink of this epoch publishes nothing before it calls [[seal]]. Until then,
   * frames in the driver's memory are safe enough.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def hold(runId: String, epoch: Long): Unit = {
    val run = runs.requireOwner(runId, epoch)
    runs.locked(run.epoch.on(EpochState.Hold(epoch)))
  }

  /**
   * Makes the frames that [[hold]] has kept durable, and checks whether another driver owns the
   * query. When it returns, every store that the epoch's tasks have opened is durable, and the sink
   * may publish.
   *
   * @param output
   *   the sink's description of the epoch's rows, if it has written them already; stored if the
   *   seal is an object
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED; the sink must not publish then
   */
  def seal(runId: String, epoch: Long, output: Option[String]): Unit = {
    val beganNs = runs.clock.monotonicNs()
    claims.awaitOthers(runId)
    val run = runs.requireOwner(runId, epoch)
    runs.checkOpen(run, epoch)
    run.writer.await()
    frames.flush(run, epoch)
    val chains = stores.await(run, epoch, () => stores.closed(run, epoch, None))
    val decisions = runs.locked(run.epoch.channels.decisions)
    runs.locked(run.at(epoch).sealMethod(decisions.nonEmpty)) match {
      case SealMethod.OwnerCheck => runs.checkOwnerUnless(run, epoch, SealLookNs)
      case SealMethod.SealObject =>
        // An epoch that runs again after its seal must make the same decisions.
        val seal = seals.of(run, epoch, chains, runs.logs.offsets(epoch))
        seals.write(run, pages.withFrames(run, seal).copy(channels = decisions, output = output))
        // Either a later owner has seen the object, or this check finds the later owner.
        runs.checkOwner(run, epoch)
    }
    runs.locked {
      run.epoch.on(EpochState.Seal(epoch))
      run.meter.recordSeal(runs.clock.monotonicNs() - beganNs)
    }
  }
}

private object EpochSealer {

  /** Largest age of an ownership check after the last cut that counts for the seal. */
  private val SealLookNs = TimeUnit.SECONDS.toNanos(1)
}
