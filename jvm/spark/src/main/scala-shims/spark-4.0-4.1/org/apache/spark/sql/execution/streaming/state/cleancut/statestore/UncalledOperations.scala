package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.annotation.unused

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStoreIterator, UnsafeRowPair}

/** Store operations that Spark calls only in 4.2 and later. */
private[cleancut] trait UncalledOperations {
  def keyExists(key: UnsafeRow, colFamilyName: String): Boolean

  def multiGet(keys: Array[UnsafeRow], colFamilyName: String): Iterator[UnsafeRow]

  def iteratorWithMultiValues(colFamilyName: String): StateStoreIterator[UnsafeRowPair]

  def prefixScanWithMultiValues(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair]

  def rangeScan(
      startKey: Option[UnsafeRow],
      endKey: Option[UnsafeRow],
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair]

  def rangeScanWithMultiValues(
      startKey: Option[UnsafeRow],
      endKey: Option[UnsafeRow],
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair]

  def deleteRange(
      @unused beginKey: UnsafeRow,
      @unused endKey: UnsafeRow,
      @unused colFamilyName: String
  ): Unit = throw new UnsupportedOperationException("deleteRange")

  def allColumnFamilyNames: Set[String]
}
