package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/**
 * Operators that scan all expired state. Spark 4.3 only scans state that expired since the
 * timestamp of the previous epoch, but that epoch may have run at an earlier timestamp.
 */
private[cleancut] object WholeScans {
  def of(exec: TransformWithStateExec): TransformWithStateExec =
    exec.copy(prevBatchTimestampMs = None)

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec =
    exec.copy(prevBatchTimestampMs = None)
}
