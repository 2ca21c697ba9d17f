package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter

/** An operator that Spark treats as stateful, but that has no store. */
private[cleancut] trait WithoutStores extends StateStoreWriter {
  override val stateStoreNames: Seq[String] = Nil
}
