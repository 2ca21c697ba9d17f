package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/** Keeps Spark's operators: on this line they accept any provider with column families. */
private[cleancut] object OwnTransformWithState {
  def of(exec: TransformWithStateExec): TransformWithStateExec = exec

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec = exec
}
