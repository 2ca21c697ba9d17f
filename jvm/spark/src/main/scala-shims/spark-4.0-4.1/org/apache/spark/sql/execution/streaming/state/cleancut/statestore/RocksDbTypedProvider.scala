package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._

/**
 * Spark 4.1 and earlier know maintenance as a whole only, and open a store in fewer ways: they
 * never begin one anew in the middle, and want no snapshot with a commit.
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
