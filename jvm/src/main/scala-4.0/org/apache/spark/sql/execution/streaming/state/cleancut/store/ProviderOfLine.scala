package org.apache.spark.sql.execution.streaming.state.cleancut.store

import org.apache.spark.sql.execution.streaming.state._

/**
 * Spark 4.0 knows maintenance as a whole only, and opens a store in fewer ways: with one number,
 * and never a second time in a task.
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

  def replayStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStore

  override def replayStateFromSnapshot(snapshotVersion: Long, endVersion: Long): StateStore =
    replayStateFromSnapshot(snapshotVersion, endVersion, readOnly = false, None, None)

  def replayReadStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): ReadStateStore

  override def replayReadStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long
  ): ReadStateStore = replayReadStateFromSnapshot(snapshotVersion, endVersion, None, None)

  def getStateStoreChangeDataReader(
      startVersion: Long,
      endVersion: Long,
      colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStoreChangeDataReader

  override def getStateStoreChangeDataReader(
      startVersion: Long,
      endVersion: Long,
      colFamilyNameOpt: Option[String]
  ): StateStoreChangeDataReader =
    getStateStoreChangeDataReader(startVersion, endVersion, colFamilyNameOpt, None)
}
