package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

/** Spark 4.3 calls snapshot and cleanup maintenance separately. */
private[cleancut] trait SparkProviderApi extends StateStoreProvider {
  protected def writeDueBase(): Unit

  protected def deleteOldFrames(): Unit

  override def doSnapshotMaintenance(): Unit = writeDueBase()

  override def doCleanupMaintenance(): Unit = deleteOldFrames()
}
