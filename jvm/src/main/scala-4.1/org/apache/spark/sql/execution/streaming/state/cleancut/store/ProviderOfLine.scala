package org.apache.spark.sql.execution.streaming.state.cleancut.store

import org.apache.spark.sql.execution.streaming.state._

/** Spark 4.1 has what [[EarlierProvider]] says, and opens a store a second time in a task. */
private[cleancut] trait ProviderOfLine extends EarlierProvider {
  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String]
  ): StateStore =
    upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit = false)
}
