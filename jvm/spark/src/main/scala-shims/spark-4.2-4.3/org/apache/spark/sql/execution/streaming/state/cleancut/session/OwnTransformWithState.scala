package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/** Operators of `transformWithState` that accept Cleancut's provider, in the place of Spark's. */
private[cleancut] object OwnTransformWithState {
  def of(exec: TransformWithStateExec): TransformWithStateExec =
    CleancutTransformWithStateExec(exec)

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec =
    CleancutTransformWithStateInPySparkExec(exec)
}
