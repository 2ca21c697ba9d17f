package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter

/** An operator that Spark takes for a stateful one, and that has no store. */
private[cleancut] trait WithoutStores extends StateStoreWriter {
  override val stateStoreNames: Seq[String] = Nil
}
