package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import scala.annotation.unused

import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.execution.streaming.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.StreamingSymmetricHashJoinHelper.{
  LeftSide,
  RightSide
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf

/** Spark APIs that differ in later lines. */
private[cleancut] object SparkCalls {

  /** The key for the number of partitions of a new query. */
  val PartitionsKey: String = SQLConf.SHUFFLE_PARTITIONS.key

  def storeNames(operator: StateStoreWriter): Seq[String] = operator match {
    case _: StreamingSymmetricHashJoinExec =>
      SymmetricHashJoinStateManager.allStateStoreNames(LeftSide, RightSide)
    case _: WithoutStores => Nil
    case _                => Seq(StateStoreId.DEFAULT_STORE_NAME)
  }

  /** Spark 4.0 has no limit. */
  def maxVersionsToDelete(@unused conf: StateStoreConf): Int = -1

  def cannotLoad(cause: Throwable): Throwable = QueryExecutionErrors.cannotLoadStore(cause)

  /** An array that keeps the first rows in memory, regardless of their size. */
  def rowArray(inMemory: Int, @unused inMemoryBytes: Long): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(inMemory, Int.MaxValue)
}
