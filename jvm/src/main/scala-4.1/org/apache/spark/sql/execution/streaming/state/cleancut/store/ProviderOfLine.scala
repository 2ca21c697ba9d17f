package org.apache.spark.sql.execution.streaming.state.cleancut.store

import org.apache.spark.sql.execution.streaming.state._

/**
 * Spark 4.1 knows maintenance as a whole only, and opens a store in fewer ways: it never begins one
 * anew in the middle, and wants no snapshot with a commit.
 */
private[cleancut] trait ProviderOfLine extends RocksDBStateStoreProvider {
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

  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String]
  ): StateStore =
    upgradeReadStoreToWriteStore(readStore, version, uniqueId, forceSnapshotOnCommit = false)
}
