package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import io.cleancut.protocol.EpochState

/**
 * The pre-commit of an epoch, which the sink requests before its output becomes visible. When a
 * seal returns, the state of the epoch is durable, and no later run decides on its rows otherwise.
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
  import EpochState.SealBy

  /**
   * The sink of this epoch makes nothing visible before it calls [[seal]]. Until then a frame that
   * the driver has is safe enough.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def hold(runId: String, epoch: Long): Unit = {
    val run = runs.believed(runId, epoch)
    runs.locked(run.epoch.on(EpochState.Hold(epoch)))
  }

  /**
   * Makes durable what [[hold]] has kept of an epoch, and looks whether another driver owns the
   * query by now. When it returns, every store that the epoch's tasks have opened is durable, and
   * the sink may let its output be seen.
   *
   * @param output
   *   by what the sink knows the rows of the epoch, if it has written them already; kept where the
   *   seal is an object
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED; the sink must not write then
   */
  def seal(runId: String, epoch: Long, output: Option[String]): Unit = {
    claims.awaitOthers(runId)
    val run = runs.believed(runId, epoch)
    runs.checkOpen(run, epoch)
    frames.flush(run, epoch)
    val chains = stores.await(run, epoch, () => stores.closed(run, epoch, None))
    val decisions = runs.locked(run.epoch.channels.decisions)
    runs.locked(run.at(epoch).sealBy(decisions.nonEmpty)) match {
      case SealBy.Look     => runs.checkOwnerUnless(run, epoch, SealLookNs)
      case SealBy.AnObject =>
        // An epoch that runs again behind its seal is to be cut where it was.
        val own = seals.of(run, epoch, chains, runs.logs.offsets(epoch))
        seals.write(run, pages.withFrames(run, own).copy(channels = decisions, output = output))
        // A later owner has seen the object, or else is seen here.
        runs.checkOwner(run, epoch)
    }
    runs.locked(run.epoch.on(EpochState.Seal(epoch)))
  }
}

private object EpochSealer {

  /** An owner check after the last cut that is not older than this counts for the seal. */
  private val SealLookNs = TimeUnit.SECONDS.toNanos(1)
}
