package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._

/** Replaces Spark's operators of `transformWithState` by those that accept Cleancut's provider. */
private[cleancut] object OwnTransformWithState {
  def of(exec: TransformWithStateExec): TransformWithStateExec =
    CleancutTransformWithStateExec(exec)

  def of(exec: TransformWithStateInPySparkExec): TransformWithStateInPySparkExec =
    CleancutTransformWithStateInPySparkExec(exec)
}
