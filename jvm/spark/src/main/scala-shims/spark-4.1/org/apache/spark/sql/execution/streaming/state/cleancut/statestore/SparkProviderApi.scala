package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._

/** Provider methods of Spark 4.1: [[RocksDbTypedProvider]], and opening a store twice in a task. */
private[cleancut] trait SparkProviderApi extends RocksDbTypedProvider {
  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String]
  ): StateStore =
    upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit = false)
}
