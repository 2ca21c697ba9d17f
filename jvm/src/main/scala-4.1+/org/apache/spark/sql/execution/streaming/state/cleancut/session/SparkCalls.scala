package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreErrors}
import org.apache.spark.sql.execution.streaming.state.cleancut.offline.EpochLogs
import org.apache.spark.sql.internal.SQLConf

/** Calls of Spark that Spark 4.0 has otherwise. */
private[cleancut] object SparkCalls {

  /** Under which a query's number of partitions is set when it begins. */
  val PartitionsKey: String = SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key

  def recordedValue(of: EpochLogs.Recorded, entry: ConfigEntry[_]): Option[String] =
    OffsetSeqMetadata.readValueOpt(of, entry)

  def storeNames(operator: StateStoreWriter): Seq[String] = operator.stateStoreNames

  def maxVersionsToDelete(conf: StateStoreConf): Int = conf.maxVersionsToDeletePerMaintenance

  def cannotLoad(cause: Throwable): Throwable = StateStoreErrors.cannotLoadStore(cause)

  /** Rows of which the first are in memory. */
  def rowArray(inMemory: Int, inMemoryBytes: Long): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(inMemory, inMemoryBytes, Int.MaxValue, Long.MaxValue)
}
