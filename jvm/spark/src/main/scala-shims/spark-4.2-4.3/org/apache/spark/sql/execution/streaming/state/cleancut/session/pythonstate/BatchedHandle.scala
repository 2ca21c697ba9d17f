package org.apache.spark.sql.execution.streaming.state.cleancut.session.pythonstate

import java.util.UUID

import org.apache.spark.sql.{Encoder, Row}
import org.apache.spark.sql.catalyst.encoders.{encoderFor, ExpressionEncoder}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.{ListState, MapState, TTLConfig, TimeMode, ValueState}
import org.apache.spark.sql.types.StructType

/** Spark's handle of a `transformWithState` task in Python, with [[StateBatches]]. */
final private[cleancut] class BatchedHandle(
    store: StateStore,
    runId: UUID,
    keyEncoder: ExpressionEncoder[Any],
    keySchema: StructType,
    timeMode: TimeMode,
    batchTimestampMs: Option[Long],
    prevBatchTimestampMs: Option[Long],
    metrics: Map[String, SQLMetric]
) extends statefulprocessor.StatefulProcessorHandleImpl(
      store,
      runId,
      keyEncoder,
      timeMode,
      isStreaming = true,
      batchTimestampMs,
      prevBatchTimestampMs,
      metrics
    ) {

  // The encoders of Python's variables are those of rows.
  private val variables = new StateVariables
  private lazy val batches = new StateBatches(keySchema, variables, this)

  override def getValueState[T](
      name: String,
      encoder: Encoder[T],
      ttl: TTLConfig
  ): ValueState[T] =
    if (name == StateBatches.Name) batches.asInstanceOf[ValueState[T]]
    else {
      val state = super.getValueState(name, encoder, ttl)
      variables.add(
        name,
        new ValueVariable(state.asInstanceOf[ValueState[Row]], encoderFor(encoder).schema)
      )
      state
    }

  override def getListState[T](name: String, encoder: Encoder[T], ttl: TTLConfig): ListState[T] = {
    val state = super.getListState(name, encoder, ttl)
    variables.add(
      name,
      new ListVariable(state.asInstanceOf[ListState[Row]], encoderFor(encoder).schema)
    )
    state
  }

  override def getMapState[K, V](
      name: String,
      keys: Encoder[K],
      values: Encoder[V],
      ttl: TTLConfig
  ): MapState[K, V] = {
    val state = super.getMapState(name, keys, values, ttl)
    variables.add(
      name,
      new MapVariable(
        state.asInstanceOf[MapState[Row, Row]],
        encoderFor(keys).schema,
        encoderFor(values).schema
      )
    )
    state
  }

  override def deleteIfExists(name: String): Unit = {
    variables.remove(name)
    super.deleteIfExists(name)
  }
}
