package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state.cleancut.session.pythonstate.BatchedState
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types.StructType

/**
 * PySpark's `transformWithState` and `transformWithStateInPandas` on Cleancut's provider; see
 * [[CleancutTransformWithStateExec]].
 */
class CleancutTransformWithStateInPySparkExec(
    functionExpr: Expression,
    groupingAttributes: Seq[Attribute],
    outputAttrs: Seq[Attribute],
    outputMode: OutputMode,
    timeMode: TimeMode,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    userFacingDataType: TransformWithStateInPySpark.UserFacingDataType.Value,
    child: SparkPlan,
    isStreaming: Boolean,
    hasInitialState: Boolean,
    initialState: SparkPlan,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateSchema: StructType
) extends TransformWithStateInPySparkExec(
      functionExpr,
      groupingAttributes,
      outputAttrs,
      outputMode,
      timeMode,
      stateInfo,
      batchTimestampMs,
      prevBatchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      userFacingDataType,
      child,
      isStreaming,
      hasInitialState,
      initialState,
      initialStateGroupingAttrs,
      initialStateSchema
    )
    with BatchedState {

  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit =
    if (!TransformWithStateRule.isRequested(conf)) super.validateStateStoreProvider(isStreaming)

  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): TransformWithStateInPySparkExec =
    CleancutTransformWithStateInPySparkExec(super.withNewChildrenInternal(newLeft, newRight))

  override def canEqual(other: Any): Boolean =
    other.isInstanceOf[CleancutTransformWithStateInPySparkExec]

  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
}

object CleancutTransformWithStateInPySparkExec {
  def apply(exec: TransformWithStateInPySparkExec): CleancutTransformWithStateInPySparkExec =
    new CleancutTransformWithStateInPySparkExec(
      exec.functionExpr,
      exec.groupingAttributes,
      exec.output,
      exec.outputMode,
      exec.timeMode,
      exec.stateInfo,
      exec.batchTimestampMs,
      exec.prevBatchTimestampMs,
      exec.eventTimeWatermarkForLateEvents,
      exec.eventTimeWatermarkForEviction,
      exec.userFacingDataType,
      exec.child,
      exec.isStreaming,
      exec.hasInitialState,
      exec.initialState,
      exec.initialStateGroupingAttrs,
      exec.initialStateSchema
    )
}
