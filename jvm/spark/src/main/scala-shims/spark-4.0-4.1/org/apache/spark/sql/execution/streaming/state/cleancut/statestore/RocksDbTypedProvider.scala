package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._

/**
 * Provider methods of Spark 4.1 and earlier, which only know combined maintenance and fewer ways to
 * open a store: they never open an empty version and never request a snapshot with a commit.
 */
private[cleancut] trait RocksDbTypedProvider extends RocksDBStateStoreProvider {
  protected def writeDueBase(): Unit

  protected def deleteOldFrames(): Unit

  def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore

  override def getStore(version: Long, uniqueId: Option[String]): StateStore =
    getStore(version, uniqueId, forceSnapshotOnCommit = false, loadEmpty = false)

  def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore
}
