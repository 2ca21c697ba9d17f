package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/** Operators that scan all expired state, as they do up to Spark 4.2. */
private[cleancut] object WholeScans {
  def of(exec: TransformWithStateExec): TransformWithStateExec = exec

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec = exec
}
