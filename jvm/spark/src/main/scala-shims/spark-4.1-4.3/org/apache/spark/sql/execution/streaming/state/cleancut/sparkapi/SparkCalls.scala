package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreErrors}
import org.apache.spark.sql.internal.SQLConf

/** Spark APIs that differ in Spark 4.0. */
private[cleancut] object SparkCalls {

  /** The key for the number of partitions of a new query. */
  val PartitionsKey: String = SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key

  def storeNames(operator: StateStoreWriter): Seq[String] = operator.stateStoreNames

  def maxVersionsToDelete(conf: StateStoreConf): Int = conf.maxVersionsToDeletePerMaintenance

  def cannotLoad(cause: Throwable): Throwable = StateStoreErrors.cannotLoadStore(cause)

  /** An array that keeps the first rows in memory. */
  def rowArray(inMemory: Int, inMemoryBytes: Long): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(inMemory, inMemoryBytes, Int.MaxValue, Long.MaxValue)
}
