package io.cleancut.coordinator.driver

import java.util.concurrent.Executor
import java.util.concurrent.atomic.AtomicBoolean

import io.cleancut.base.StoreId

/**
 * The standby copies of one query's stores. Every executor polls once a second, and ranking the
 * executors for each store takes longer than an answer may. So a poll returns the last result, and
 * starts a new computation on another thread if executors or homes have changed. At most one
 * computation runs at a time.
 *
 * @param threads
 *   threads other than those that answer polls
 */
final class Standbys(threads: Executor) {
  import Standbys._

  @volatile private var last = Computed(Placements(Map.empty, Map.empty), 0, Map.empty)
  private val isComputing = new AtomicBoolean

  /** The stores of which an executor should have a copy, possibly before the latest changes. */
  def of(executor: String, placements: Placements, replicas: Int): Set[StoreId] = {
    if (replicas > 0 && !last.isFor(placements, replicas) && isComputing.compareAndSet(false, true))
      threads.execute { () =>
        try last = Computed(placements, replicas, placements.standbys(replicas))
        finally isComputing.set(false)
      }
    if (replicas > 0) last.stores.getOrElse(executor, Set.empty) else Set.empty
  }
}

private object Standbys {
  final private case class Computed(
      placements: Placements,
      replicas: Int,
      stores: Map[String, Set[StoreId]]
  ) {
    def isFor(others: Placements, copies: Int): Boolean =
      (placements eq others) && replicas == copies
  }
}
