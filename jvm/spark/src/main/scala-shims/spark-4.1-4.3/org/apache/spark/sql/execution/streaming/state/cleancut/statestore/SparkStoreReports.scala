package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.StoreContext

import io.cleancut.base.StateVersion

/** Reports of a store to Spark. */
private[cleancut] object SparkStoreReports {

  /** Spark's metric, under its name: Spark calls a base a snapshot. */
  val LastBase: StateStoreSnapshotLastUploadInstanceMetric =
    StateStoreSnapshotLastUploadInstanceMetric()

  val NoBase: Long = LastBase.initValue

  def metrics(
      context: StoreContext,
      keys: Long,
      bytes: Long,
      custom: Map[StateStoreCustomMetric, Long],
      lastBase: Long
  ): StateStoreMetrics = {
    val ofInstance = LastBase.withNewId(context.store.partition, context.store.name)
    StateStoreMetrics(keys, bytes, custom, Map(ofInstance -> lastBase))
  }

  /** Reports a base to the driver, so that the store does not count as lagging. */
  def base(context: StoreContext, version: Long): Unit =
    if (context.request.conf.reportSnapshotUploadLag) {
      val runId = UUID.fromString(StateStoreProvider.getRunId(context.request.hadoopConf))
      val id = StateStoreProviderId(context.request.id, runId)
      StateStoreProvider.coordinatorRef.foreach(
        _.snapshotUploaded(id, version, context.clock.wallMs())
      )
    }

  def commit(context: StoreContext, version: StateVersion): Unit =
    StateStore.reportCommitToCoordinator(
      version.number,
      context.request.id,
      context.request.hadoopConf
    )

  /** Spark's check that a row matches its schemas. */
  def checkFormat(context: StoreContext, key: UnsafeRow, value: UnsafeRow): Unit = {
    val request = context.request
    StateStoreProvider.validateStateRowFormat(
      key,
      request.keySchema,
      value,
      request.valueSchema,
      request.id,
      request.conf
    )
  }
}

private[statestore] trait InstanceMetrics extends StateStoreProvider {
  override def supportedInstanceMetrics: Seq[StateStoreInstanceMetric] =
    Seq(SparkStoreReports.LastBase)
}
