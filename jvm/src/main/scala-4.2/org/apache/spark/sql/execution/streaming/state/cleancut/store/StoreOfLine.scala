package org.apache.spark.sql.execution.streaming.state.cleancut.store

import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.types.StructType

/** Spark 4.2 asks no more of a store than its own `StateStore` says. */
private[cleancut] trait StoreOfLine {
  protected def restartableScan(colFamilyName: String): RestartableScan

  protected def declare(
      colFamilyName: String,
      valueSchema: StructType,
      encoder: KeyStateEncoderSpec,
      isMultiValued: Boolean,
      isInternal: Boolean
  ): Unit
}
