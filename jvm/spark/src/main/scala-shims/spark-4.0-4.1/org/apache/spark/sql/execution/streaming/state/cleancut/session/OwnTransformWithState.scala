package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/** Those of this line of Spark, which accept any provider that has column families. */
private[cleancut] object OwnTransformWithState {
  def of(exec: TransformWithStateExec): TransformWithStateExec = exec

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec = exec
}
