package io.cleancut.protocol

import io.cleancut.base.StoreId
import io.cleancut.format.StoreCut

/**
 * The tasks of an epoch that its query is about to commit. A sink need not have asked for all of
 * them: one that has seen the epoch may skip it.
 */
trait EpochPlan {

  /** All stores that its tasks open. */
  def stores: Set[StoreId]

  /**
   * Runs all tasks, as an action of the sink would, and drops the rows. What it throws ends the
   * query, as a failure of the sink does.
   */
  def run(): Unit

  final def isWhole(found: Seq[StoreCut]): Boolean = stores.subsetOf(found.map(_.store).toSet)
}
