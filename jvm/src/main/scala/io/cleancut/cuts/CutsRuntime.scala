package io.cleancut.cuts

import java.util.concurrent.{CompletableFuture, Executor}

import io.cleancut.{Clock, DaemonThreads}
import io.cleancut.format.{PlacedFrame, SealedFrame, SegmentIdentity}
import io.cleancut.history.EpochWatcher
import io.cleancut.objects.ObjectStore

/** Makes frames durable, many in one object. */
trait FramePacker extends AutoCloseable {

  /** None if there is no room now. */
  def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]]

  /** Makes frames durable at once, in as few objects as they fit into; returns when they are. */
  def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame]

  /** What it has made durable so far. */
  def written: WriteCounts
}

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
 *   of the chains that cuts name; None for cuts of format version 1, which name none
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
    paging: Option[Paging] = Some(Paging.Default),
    parts: CutArchive => CutParts = CutParts.shared,
    beforeWait: CompletableFuture[_] => Unit = _ => (),
    watcher: Option[EpochWatcher] = None,
    maintenance: Option[Maintenance] = None
)

object CutsRuntime {

  /** The writer of the segments that a driver packs. */
  val Driver = "driver"

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
    new BudgetedPacker(new SegmentPacker(store, Driver, clock), budget.room(Long.MaxValue)),
    DaemonThreads.pool("cleancut-coordinator-requests", MaxRequests),
    DaemonThreads.pool("cleancut-maintenance", MaxMaintenance),
    SweepEpochs,
    QueryLedger.BaseMargin,
    budget
  )
}
