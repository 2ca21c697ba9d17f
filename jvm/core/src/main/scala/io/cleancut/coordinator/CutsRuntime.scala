package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, Executor}

import io.cleancut.base.{Clock, DaemonThreads, ParallelReads, ProcessWatch}
import io.cleancut.coordinator.state.{BudgetedPacker, FrameBudget, QueryLedger}
import io.cleancut.cutstore.{CutArchive, CutParts, FramePacker, Owner, Paging, SegmentPacker}
import io.cleancut.cutstore.usage.Place
import io.cleancut.history.EpochWatcher
import io.cleancut.objectstore.ObjectStore

/**
 * Environment of a coordinator: clock, threads, and the limits of its background work. A simulation
 * supplies its own.
 *
 * @param requests
 *   executor of the requests that tasks of this query wait for. Each query has its own, so that no
 *   query waits for the object store of another one
 * @param background
 *   executor of the work that no query waits for. Each query has its own
 * @param sweepEpochs
 *   epochs between two garbage collections, each of which makes some list requests
 * @param baseMargin
 *   largest number of epochs between a base and the first cut that references it
 * @param budget
 *   limit of the frames that the driver holds
 * @param paging
 *   page settings of the cuts
 * @param parts
 *   reader of the objects that a cut references
 * @param writes
 *   executor of the writes of cuts and log entries that run concurrently with epochs
 * @param beforeWait
 *   called by a thread that is about to wait for another thread
 * @param watcher
 *   receives each committed epoch
 * @param maintenance
 *   background work that runs concurrently with epochs; None if no limits are configured
 * @param reads
 *   performs independent reads
 * @param handoverMs
 *   how long a start waits for the end of the run that owns the query; 0 if it takes the query at
 *   once
 * @param stopQuery
 *   stops the query of a run; called by threads of that query, and returns when it has begun
 * @param address
 *   `host:port` at which this driver accepts connections
 * @param watch
 *   begins to watch the driver of another run
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
    writes: Executor = CutsRuntime.Writes,
    beforeWait: CompletableFuture[_] => Unit = _ => (),
    watcher: Option[EpochWatcher] = None,
    maintenance: Option[Maintenance] = None,
    reads: ParallelReads = ParallelReads.shared,
    handoverMs: Long = 0L,
    stopQuery: String => Unit = _ => (),
    address: Option[String] = None,
    watch: Owner => ProcessWatch = _ => ProcessWatch.Unknown
)

object CutsRuntime {

  private val SweepEpochs = 20L

  // Each query writes one object at a time.
  private lazy val Writes: Executor = DaemonThreads.pool("cleancut-epoch-writer", MaxWrites)
  private val MaxWrites = 64

  /** Largest number of concurrent requests of one query. */
  private val MaxRequests = 4

  /**
   * One thread each for pages, garbage collection and scans of markers, so that none of them waits
   * for another. A slow list request must not delay pages.
   */
  private val MaxMaintenance = 3

  /**
   * @param budget
   *   limit of all frames of this and other queries in memory
   */
  def onThreads(
      store: ObjectStore,
      clock: Clock,
      budget: FrameBudget = FrameBudget.ofDriver
  ): CutsRuntime = CutsRuntime(
    clock,
    // The packer has a separate limit.
    new BudgetedPacker(new SegmentPacker(store, Place.Driver, clock), budget.room(Long.MaxValue)),
    DaemonThreads.pool("cleancut-coordinator-requests", MaxRequests),
    DaemonThreads.pool("cleancut-maintenance", MaxMaintenance),
    SweepEpochs,
    QueryLedger.BaseMargin,
    budget
  )
}
