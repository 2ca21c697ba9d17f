package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, Executor}

import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.coordinator.state.{BudgetedPacker, FrameBudget, QueryLedger}
import io.cleancut.cutstore.{CutArchive, CutParts, FramePacker, Paging, SegmentPacker}
import io.cleancut.cutstore.usage.Place
import io.cleancut.history.EpochWatcher
import io.cleancut.objectstore.ObjectStore

/**
 * What a coordinator runs on: its time and threads, and how often and how late it tidies up. A
 * simulation puts in its own.
 *
 * @param requests
 *   does what tasks of this query wait for; it is the query's own, so that no other waits for its
 *   store
 * @param background
 *   runs what no query waits for; it is the query's own too
 * @param sweepEpochs
 *   epochs between two sweeps, each of which takes some listings
 * @param baseMargin
 *   how many epochs a base may be behind the one whose cut is the first to name it
 * @param budget
 *   for the frames that it keeps
 * @param paging
 *   of the chains that cuts name
 * @param parts
 *   how what a cut names is read
 * @param beforeWait
 *   called by a thread that is about to wait for what another one does
 * @param watcher
 *   of the epochs that are committed
 * @param maintenance
 *   by what is done beside epochs; None for one that nobody asks for anything
 */
final case class CutsRuntime(
    clock: Clock,
    packer: FramePacker,
    requests: Executor,
    background: Executor,
    sweepEpochs: Long,
    baseMargin: Long,
    budget: FrameBudget,
    paging: Paging = Paging.Default,
    parts: CutArchive => CutParts = CutParts.shared,
    beforeWait: CompletableFuture[_] => Unit = _ => (),
    watcher: Option[EpochWatcher] = None,
    maintenance: Option[Maintenance] = None
)

object CutsRuntime {

  private val SweepEpochs = 20L

  /** At a time, for one query. */
  private val MaxRequests = 4

  /**
   * Page turns, sweeps and scans of markers: one of each at most at a time, so that none of them
   * waits for another. A listing that takes long must not hold up pages.
   */
  private val MaxMaintenance = 3

  /** @param budget for all frames of this and other queries that are in memory */
  def onThreads(
      store: ObjectStore,
      clock: Clock,
      budget: FrameBudget = FrameBudget.ofDriver
  ): CutsRuntime = CutsRuntime(
    clock,
    // What a packer takes has a bound of its own.
    new BudgetedPacker(new SegmentPacker(store, Place.Driver, clock), budget.room(Long.MaxValue)),
    DaemonThreads.pool("cleancut-coordinator-requests", MaxRequests),
    DaemonThreads.pool("cleancut-maintenance", MaxMaintenance),
    SweepEpochs,
    QueryLedger.BaseMargin,
    budget
  )
}
