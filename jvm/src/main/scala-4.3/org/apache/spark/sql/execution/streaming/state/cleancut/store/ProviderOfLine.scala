package org.apache.spark.sql.execution.streaming.state.cleancut.store

import org.apache.spark.sql.execution.streaming.state.StateStoreProvider

/** Spark 4.3 calls the two halves of maintenance one by one. */
private[cleancut] trait ProviderOfLine extends StateStoreProvider {
  protected def writeDueBase(): Unit

  protected def deleteOldFrames(): Unit

  override def doSnapshotMaintenance(): Unit = writeDueBase()

  override def doCleanupMaintenance(): Unit = deleteOldFrames()
}
