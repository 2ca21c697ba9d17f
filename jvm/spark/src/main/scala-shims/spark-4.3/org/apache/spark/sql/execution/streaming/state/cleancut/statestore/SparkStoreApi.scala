package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Store methods that Spark 4.3 requires in addition to 4.2. */
private[cleancut] trait SparkStoreApi extends SupportsReusableIterator with OwnOperations {
  this: StateStore =>

  override def reusableIterator(colFamilyName: String): ReusableIterator[UnsafeRowPair] = {
    val scan = restartableScan(colFamilyName)
    new ReusableIterator[UnsafeRowPair] {
      override def refreshAndSeekToPrefix(prefix: UnsafeRow): Unit = scan.restartFrom(prefix)
      override def hasNext: Boolean = scan.hasNext
      override def next(): UnsafeRowPair = scan.next()
      override def close(): Unit = scan.close()
    }
  }

  override def registerColFamily(
      colFamilyName: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit =
    declare(colFamilyName, valueSchema, keyStateEncoderSpec, useMultipleValuesPerKey, isInternal)
}
