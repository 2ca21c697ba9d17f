package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.StoreContext

import io.cleancut.base.StateVersion

/** What a store tells Spark beside its results. */
private[cleancut] object SparkStoreReports {

  /** Spark's own, under its own name: a base is what it calls a snapshot. */
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

  /** Tells the driver that a base is there, so that it does not take the store for a laggard. */
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

  /** Spark's check that a row fits its schemas. */
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
