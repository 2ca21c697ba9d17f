package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.RestartableScan
import org.apache.spark.sql.types.StructType

/** Of what `SparkStoreApi` makes the operations that one line of Spark has and another one not. */
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
