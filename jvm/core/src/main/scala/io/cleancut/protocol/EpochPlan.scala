package io.cleancut.protocol

import io.cleancut.base.StoreId
import io.cleancut.format.StoreCut

/**
 * The tasks of an epoch that the query is about to commit. A sink that has seen the epoch may skip
 * it, so not all tasks may have run.
 */
trait EpochPlan {

  /** All stores that its tasks open. */
  def stores: Set[StoreId]

  /**
   * Runs all tasks as an action of the sink would, and discards the rows. An error ends the query,
   * as a failure of the sink does.
   */
  def run(): Unit

  final def isWhole(chains: Seq[StoreCut]): Boolean = stores.subsetOf(chains.map(_.store).toSet)
}
