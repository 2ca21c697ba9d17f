package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.error.Errors
import io.cleancut.format.StoreCut

/**
 * The stores of an epoch, by the frames that this run has collected. Without state; it takes the
 * lock of the [[RunRegistry]] to copy the ledger, and works on the copy without it.
 */
final private[coordinator] class EpochStores(runs: RunRegistry) {
  import EpochStores._
  import runs.{archive, clock}

  /** The chains after an epoch, computed without the lock. */
  def closed(
      run: QueryRun,
      epoch: Long,
      counted: Option[Set[String]]
  ): Either[Set[StoreId], Seq[StoreCut]] = {
    val close = runs.locked(run.ledger.closing(epoch))
    close(counted)
  }

  def await(
      run: QueryRun,
      epoch: Long,
      close: () => Either[Set[StoreId], Seq[StoreCut]]
  ): Seq[StoreCut] = {
    var result = close()
    var retry = 0
    while (result.isLeft && retry < Retries) {
      clock.sleep(FirstWaitMs << retry, TimeUnit.MILLISECONDS)
      retry += 1
      result = close()
    }
    result.fold(
      missing => {
        // Reports of a run are refused once another run has followed it.
        runs.requireOwner(run.id.runId, epoch)
        val stores = runs.locked(named(missing, openedBy(run, _)))
        throw Errors.epochIncomplete(archive.location, epoch, stores)
      },
      identity
    )
  }

  /**
   * @param further
   *   text after the name of a store
   */
  def named(stores: Set[StoreId], further: StoreId => String = _ => ""): String = {
    val first = stores.toSeq.sortBy(_.toString).take(Named)
    val more = if (stores.size > Named) s" and ${stores.size - Named} more" else ""
    first.map(store => s"$store${further(store)}").mkString("; ") + more
  }

  private def openedBy(run: QueryRun, store: StoreId): String =
    run.meter.lastOpener(store).fold(" (no task has opened it)") { case (attempt, place) =>
      s" (last opened by task attempt $attempt${place.fold("")(at => s" in $at")})"
    }
}

private object EpochStores {
  private val Retries = 3
  private val FirstWaitMs = 100L

  /** Largest number of stores that an error names. */
  private val Named = 10
}
