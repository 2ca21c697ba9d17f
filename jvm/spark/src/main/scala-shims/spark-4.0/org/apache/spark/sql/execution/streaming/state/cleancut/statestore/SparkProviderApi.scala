package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._

/**
 * Provider methods of Spark 4.0. In addition to [[RocksDbTypedProvider]], it never opens a store
 * twice in a task, and replays versions by their numbers.
 */
private[cleancut] trait SparkProviderApi extends RocksDbTypedProvider {
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
