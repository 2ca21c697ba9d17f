package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.language.implicitConversions

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore}

/** Methods that stores have since 4.1. Stores of Spark 4.0 end every read by `abort`. */
private[cleancut] trait SparkStores {
  implicit def storesOf41(store: ReadStateStore): StoresOf41 = new StoresOf41(store)
}

final private[statestore] class StoresOf41(private val store: ReadStateStore) extends AnyVal {
  def release(): Unit = store match {
    case cleancut: StoreHandle => cleancut.release()
    case other                 => other.abort()
  }

  def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = store match {
    case cleancut: StoreHandle => cleancut.putList(key, values, family)
    case other                 =>
      writing(other).put(key, values.head, family)
      values.tail.foreach(writing(other).merge(key, _, family))
  }

  def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = store match {
    case cleancut: StoreHandle => cleancut.mergeList(key, values, family)
    case other                 => values.foreach(writing(other).merge(key, _, family))
  }

  private def writing(store: ReadStateStore): StateStore = store.asInstanceOf[StateStore]
}
