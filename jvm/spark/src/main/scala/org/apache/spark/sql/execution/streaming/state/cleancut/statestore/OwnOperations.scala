package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.RestartableScan
import org.apache.spark.sql.types.StructType

/** Common parts of operations that differ between Spark versions, for `SparkStoreApi`. */
private[cleancut] trait OwnOperations {

  /** All rows of a family, in its order if it has one. */
  protected def restartableScan(colFamilyName: String): RestartableScan

  protected def declare(
      colFamilyName: String,
      valueSchema: StructType,
      encoder: KeyStateEncoderSpec,
      isMultiValued: Boolean,
      isInternal: Boolean
  ): Unit
}
