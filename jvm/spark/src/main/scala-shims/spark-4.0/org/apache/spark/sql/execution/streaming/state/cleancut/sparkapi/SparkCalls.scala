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

/** Calls of Spark that later lines have otherwise. */
private[cleancut] object SparkCalls {

  /** Under which a query's number of partitions is set when it begins. */
  val PartitionsKey: String = SQLConf.SHUFFLE_PARTITIONS.key

  def storeNames(operator: StateStoreWriter): Seq[String] = operator match {
    case _: StreamingSymmetricHashJoinExec =>
      SymmetricHashJoinStateManager.allStateStoreNames(LeftSide, RightSide)
    case _: WithoutStores => Nil
    case _                => Seq(StateStoreId.DEFAULT_STORE_NAME)
  }

  /** No line before 4.1 bounds that. */
  def maxVersionsToDelete(@unused conf: StateStoreConf): Int = -1

  def cannotLoad(cause: Throwable): Throwable = QueryExecutionErrors.cannotLoadStore(cause)

  /** Rows of which the first are in memory, however large they are. */
  def rowArray(inMemory: Int, @unused inMemoryBytes: Long): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(inMemory, Int.MaxValue)
}
