package org.apache.spark.sql.execution.streaming.state.cleancut.store

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

private[cleancut] trait StoreOfLine extends OwnOperations with LaterOperations {
  def putList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit

  def mergeList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit

  def release(): Unit
}
