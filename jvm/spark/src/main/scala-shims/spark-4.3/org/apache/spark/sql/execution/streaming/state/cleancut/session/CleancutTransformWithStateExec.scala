package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}

/**
 * `transformWithState` on Cleancut's provider. The parameters and their order are those of Spark's
 * operator, because Spark copies a node with the constructor that accepts them.
 */
class CleancutTransformWithStateExec(
    keyDeserializer: Expression,
    valueDeserializer: Expression,
    groupingAttributes: Seq[Attribute],
    dataAttributes: Seq[Attribute],
    statefulProcessor: StatefulProcessor[Any, Any, Any],
    timeMode: TimeMode,
    outputMode: OutputMode,
    keyEncoder: ExpressionEncoder[Any],
    outputObjAttr: Attribute,
    stateInfo: Option[StatefulOperatorStateInfo],
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    eventTimeWatermarkForLateEvents: Option[Long],
    eventTimeWatermarkForEviction: Option[Long],
    child: SparkPlan,
    isStreaming: Boolean,
    isRealTimeMode: Boolean,
    hasInitialState: Boolean,
    initialStateGroupingAttrs: Seq[Attribute],
    initialStateDataAttrs: Seq[Attribute],
    initialStateDeserializer: Expression,
    initialState: SparkPlan
) extends TransformWithStateExec(
      keyDeserializer,
      valueDeserializer,
      groupingAttributes,
      dataAttributes,
      statefulProcessor,
      timeMode,
      outputMode,
      keyEncoder,
      outputObjAttr,
      stateInfo,
      batchTimestampMs,
      prevBatchTimestampMs,
      eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction,
      child,
      isStreaming,
      isRealTimeMode,
      hasInitialState,
      initialStateGroupingAttrs,
      initialStateDataAttrs,
      initialStateDeserializer,
      initialState
    ) {

  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit =
    if (!TransformWithStateRule.isRequested(conf)) super.validateStateStoreProvider(isStreaming)

  override protected def withNewChildrenInternal(
      newLeft: SparkPlan,
      newRight: SparkPlan
  ): TransformWithStateExec =
    CleancutTransformWithStateExec(super.withNewChildrenInternal(newLeft, newRight))

  // A transformation keeps the old node if the new one is equal to it. A node of this class must
  // therefore not equal a node of Spark's, in either direction. Hash codes stay consistent.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[CleancutTransformWithStateExec]

  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
}

object CleancutTransformWithStateExec {
  def apply(exec: TransformWithStateExec): CleancutTransformWithStateExec =
    new CleancutTransformWithStateExec(
      exec.keyDeserializer,
      exec.valueDeserializer,
      exec.groupingAttributes,
      exec.dataAttributes,
      exec.statefulProcessor,
      exec.timeMode,
      exec.outputMode,
      exec.keyEncoder,
      exec.outputObjAttr,
      exec.stateInfo,
      exec.batchTimestampMs,
      exec.prevBatchTimestampMs,
      exec.eventTimeWatermarkForLateEvents,
      exec.eventTimeWatermarkForEviction,
      exec.child,
      exec.isStreaming,
      exec.isRealTimeMode,
      exec.hasInitialState,
      exec.initialStateGroupingAttrs,
      exec.initialStateDataAttrs,
      exec.initialStateDeserializer,
      exec.initialState
    )
}
