package io.cleancut.coordinator

import org.slf4j.LoggerFactory

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.error.Errors
import io.cleancut.format.{Channels, CutLayout, SealName, StoreCut}
import io.cleancut.format.cut.Cut
import io.cleancut.protocol.{CommitEntry, EpochState}

/**
 * Finishes epochs that an earlier run has sealed, for sinks that have the rows of that run. The cut
 * then has the versions of the seal and no others. Without state; requests are made without the
 * lock of the [[RunRegistry]].
 */
final private[coordinator] class EpochFinisher(runs: RunRegistry, stores: EpochStores) {
  import EpochFinisher.logger
  import runs.archive

  /**
   * What an earlier run's seal says of the rows of this epoch, so that its sink need not have them
   * again. None if no run has sealed the epoch, or not of the same input.
   */
  def sealedOutput(runId: String, epoch: Long): Option[String] =
    sealOf(runs.believed(runId, epoch), epoch).flatMap(_.output)

  /**
   * Has an epoch finished from the seal of an earlier run: its tasks, which are to be run once more
   * behind this call, take over the versions that are sealed, and the cut is made of them. For a
   * sink that has the rows of that run, since those of this one need not be the same.
   *
   * @return
   *   false if there is no such seal, so that the epoch is to be run as any other
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, the seal does not have all of the epoch; CLEANCUT_FENCED
   */
  def finish(runId: String, epoch: Long): Boolean = {
    val run = runs.believed(runId, epoch)
    runs.checkOpen(run, epoch)
    val seal = sealOf(run, epoch)
    seal.foreach { from =>
      val missing = lackingIn(from, runs.locked(run.ledger.lastCut))
      if (missing.nonEmpty) {
        val detail = s"it does not have ${stores.named(missing)}"
        val name = SealName(epoch, from.run.generation)
        throw Errors.cutCorrupted(archive.pathOf(CutLayout.seal(name)), detail)
      }
      runs.checkOwner(run, epoch)
      logger.info(
        s"Finishes epoch $epoch of ${archive.location} from the seal of run ${from.run.runId}"
      )
      runs.locked(run.epoch.on(EpochState.Finish(from)))
    }
    seal.isDefined
  }

  private def sealOf(run: QueryRun, epoch: Long): Option[Cut] =
    runs
      .locked(run.at(epoch).sealedBefore)
      .filter(_.offsets == runs.logs.offsets(epoch))

  private def lackingIn(seal: Cut, previous: Option[Cut]): Set[StoreId] = {
    val known = previous.toSeq.flatMap(_.stores.map(_.store)).filterNot(Channels.isChannel)
    val inFlight = seal.channels.collect {
      case report if report.deferred.rows > 0 => report.channel
    }
    (known ++ inFlight).filter(seal.of(_).isEmpty).toSet
  }

  /** What is sealed, unless Spark goes on from versions of tasks that had run before. */
  def finished(run: QueryRun, seal: Cut, entry: String): Seq[StoreCut] =
    stores.await(
      run,
      seal.epoch,
      () => {
        val own = seal.stores.filterNot(of => Channels.isChannel(of.store))
        val others = CommitEntry
          .countedIds(entry)
          .fold(Set.empty[StoreId])(ids =>
            own.filterNot(of => ids(of.version.id)).map(_.store).toSet
          )
        Either.cond(others.isEmpty, seal.stores, others)
      }
    )
}

private object EpochFinisher {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}
