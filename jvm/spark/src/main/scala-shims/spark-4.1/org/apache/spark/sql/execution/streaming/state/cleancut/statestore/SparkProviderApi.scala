package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._

/** Spark 4.1 has what [[RocksDbTypedProvider]] says, and opens a store a second time in a task. */
private[cleancut] trait SparkProviderApi extends RocksDbTypedProvider {
  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String]
  ): StateStore =
    upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit = false)
}
