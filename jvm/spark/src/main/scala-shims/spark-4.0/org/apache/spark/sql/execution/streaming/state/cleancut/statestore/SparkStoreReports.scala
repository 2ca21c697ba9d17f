package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.annotation.unused

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.StoreContext

import io.cleancut.base.StateVersion

/** Reports of a store to Spark 4.0, which does not track snapshots and commits of single stores. */
private[cleancut] object SparkStoreReports {
  val NoBase: Long = -1L

  def metrics(
      @unused context: StoreContext,
      keys: Long,
      bytes: Long,
      custom: Map[StateStoreCustomMetric, Long],
      @unused lastBase: Long
  ): StateStoreMetrics = StateStoreMetrics(keys, bytes, custom)

  def base(@unused context: StoreContext, @unused version: Long): Unit = ()

  def commit(@unused context: StoreContext, @unused version: StateVersion): Unit = ()

  def checkFormat(context: StoreContext, key: UnsafeRow, value: UnsafeRow): Unit = {
    val request = context.request
    StateStoreProvider.validateStateRowFormat(
      key,
      request.keySchema,
      value,
      request.valueSchema,
      request.conf
    )
  }
}

private[statestore] trait InstanceMetrics
