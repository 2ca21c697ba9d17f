package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/**
 * Operators that scan all expired state. Spark 4.3 scans only what has expired since the timestamp
 * of the epoch before, and that epoch may have run at an earlier one.
 */
private[cleancut] object WholeScans {
  def of(exec: TransformWithStateExec): TransformWithStateExec =
    exec.copy(prevBatchTimestampMs = None)

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec =
    exec.copy(prevBatchTimestampMs = None)
}
