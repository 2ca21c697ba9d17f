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
 * then has exactly the versions of the seal. Without state; requests are made without the lock of
 * the [[RunRegistry]].
 */
final private[coordinator] class EpochFinisher(runs: RunRegistry, stores: EpochStores) {
  import EpochFinisher.logger
  import runs.archive

  /**
   * The description of the epoch's rows in an earlier run's seal. The sink does not process these
   * rows again. None if no run has sealed the epoch with the same input.
   */
  def sealedOutput(runId: String, epoch: Long): Option[String] =
    sealOf(runs.requireOwner(runId, epoch), epoch).flatMap(_.output)

  /**
   * Finishes an epoch from the seal of an earlier run: its tasks run once more after this call and
   * take over the sealed versions, and the cut consists of these. For a sink that has the rows of
   * the earlier run, because the rows of this run can differ.
   *
   * @return
   *   false if there is no such seal; the epoch then runs normally
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED if the seal does not have all stores of the epoch; CLEANCUT_FENCED
   */
  def finish(runId: String, epoch: Long): Boolean = {
    val run = runs.requireOwner(runId, epoch)
    runs.checkOpen(run, epoch)
    val seal = sealOf(run, epoch)
    seal.foreach { from =>
      val missing = lackingIn(from, runs.locked(run.ledger.lastCut))
      if (missing.nonEmpty) {
        val detail = s"the seal lacks ${stores.named(missing)}"
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

  /** The sealed chains, unless Spark continues from versions of tasks that ran before. */
  def finished(run: QueryRun, seal: Cut, entry: String): Seq[StoreCut] =
    stores.await(
      run,
      seal.epoch,
      () => {
        val stateStores = seal.stores.filterNot(store => Channels.isChannel(store.store))
        val others = CommitEntry
          .countedIds(entry)
          .fold(Set.empty[StoreId])(ids =>
            stateStores.filterNot(store => ids(store.version.id)).map(_.store).toSet
          )
        Either.cond(others.isEmpty, seal.stores, others)
      }
    )
}

private object EpochFinisher {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}
