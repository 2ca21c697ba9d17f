package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreErrors}
import org.apache.spark.sql.internal.SQLConf

/** Calls of Spark that Spark 4.0 has otherwise. */
private[cleancut] object SparkCalls {

  /** Under which a query's number of partitions is set when it begins. */
  val PartitionsKey: String = SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key

  def storeNames(operator: StateStoreWriter): Seq[String] = operator.stateStoreNames

  def maxVersionsToDelete(conf: StateStoreConf): Int = conf.maxVersionsToDeletePerMaintenance

  def cannotLoad(cause: Throwable): Throwable = StateStoreErrors.cannotLoadStore(cause)

  /** Rows of which the first are in memory. */
  def rowArray(inMemory: Int, inMemoryBytes: Long): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(inMemory, inMemoryBytes, Int.MaxValue, Long.MaxValue)
}
