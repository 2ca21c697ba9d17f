package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

/** How `dropDuplicates` of this Spark version compares floating-point numbers of its keys. */
private[operations] object DuplicateKeys {

  /** Whether -0.0 equals 0.0, and all NaN values are equal. */
  val AreNormalized: Boolean = false
}
