package org.apache.spark.sql.execution.streaming.state.cleancut.session.pythonstate

import java.util.concurrent.TimeUnit.NANOSECONDS

import org.apache.spark.JobArtifactSet
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonEvalType}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark.UserFacingDataType
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.python.ArrowPythonRunner
import org.apache.spark.sql.execution.python.cleancut.PythonGroups
import org.apache.spark.sql.execution.python.streaming.{
  TransformWithStateInPySparkExec,
  TransformWithStateInPySparkPythonRunner
}
import org.apache.spark.sql.execution.streaming.state.{
  NoPrefixKeyStateEncoderSpec,
  StateStore,
  StateStoreOps
}
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker.PythonOperator
import org.apache.spark.sql.streaming.TimeMode
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.CompletionIterator

import io.cleancut.base.Clock

/**
 * Executes `transformWithState` as Spark 4.2 and 4.3 do, with [[BatchedHandle]] in place of Spark's
 * handle. Spark creates its handle in a private method, so this repeats the method for queries
 * without an initial state.
 */
private[cleancut] trait BatchedState extends TransformWithStateInPySparkExec {

  override def doExecute(): RDD[InternalRow] =
    if (!isStreaming || !PythonOperator.isAccelerated(this)) super.doExecute()
    else {
      metrics
      validateStateStoreProvider(isStreaming)
      val python = BatchedState.settingsOf(this)
      child
        .execute()
        .mapPartitionsWithStateStore[InternalRow](
          getStateInfo,
          schemaForKeyRow,
          schemaForValueRow,
          NoPrefixKeyStateEncoderSpec(schemaForKeyRow),
          session.sqlContext.sessionState,
          Some(session.streams.stateStoreCoordinator),
          useColumnFamilies = true,
          useMultipleValuesPerKey = true
        )((store, input) => process(python, store, input))
    }

  private def process(
      python: BatchedState.Settings,
      store: StateStore,
      input: Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val started = Clock.System.monotonicNs()
    val rows = watermarkPredicateForDataForLateEvents match {
      case Some(predicate) if timeMode == TimeMode.EventTime() =>
        applyRemovingRowsOlderThanWatermark(input, predicate)
      case _ => input
    }
    val handle = new BatchedHandle(
      store,
      getStateInfo.queryRunId,
      python.keyEncoder,
      python.keySchema,
      timeMode,
      batchTimestampMs,
      prevBatchTimestampMs,
      metrics
    )
    val columns = PythonGroups.columns(child.output, groupingAttributes)
    val groups = PythonGroups.group(rows, groupingAttributes, child.output, columns.attributes)
    val udf = functionExpr.asInstanceOf[PythonUDF]
    val runner = new TransformWithStateInPySparkPythonRunner(
      Seq((ChainedPythonFunctions(Seq(udf.func)), udf.resultId.id)),
      if (userFacingDataType == UserFacingDataType.PANDAS)
        PythonEvalType.SQL_TRANSFORM_WITH_STATE_PANDAS_UDF
      else PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF,
      Array(columns.offsets),
      DataTypeUtils.fromAttributes(columns.attributes),
      handle,
      python.timeZone,
      python.runnerConf,
      pythonMetrics,
      python.artifacts,
      python.keySchema,
      batchTimestampMs,
      eventTimeWatermarkForEviction
    )
    val numOutputRows = longMetric("numOutputRows")
    CompletionIterator[InternalRow, Iterator[InternalRow]](
      PythonGroups.execute(groups, output, runner), {
        longMetric("allUpdatesTimeMs") += NANOSECONDS.toMillis(Clock.System.monotonicNs() - started)
        longMetric("commitTimeMs") += timeTakenMs {
          handle.doTtlCleanup()
          store.commit()
          ()
        }
        setStoreMetrics(store, isStreaming)
        setOperatorMetrics()
      }
    ).map { row =>
      numOutputRows += 1
      row
    }
  }
}

private[cleancut] object BatchedState {

  /** What only the driver's session knows. */
  final private case class Settings(
      keySchema: StructType,
      keyEncoder: ExpressionEncoder[Any],
      timeZone: String,
      runnerConf: Map[String, String],
      artifacts: Option[String]
  )

  private def settingsOf(exec: TransformWithStateInPySparkExec): Settings = {
    val keySchema =
      StructType(exec.groupingAttributes.map(a => StructField(a.name, a.dataType, a.nullable)))
    Settings(
      keySchema,
      ExpressionEncoder(keySchema).resolveAndBind().asInstanceOf[ExpressionEncoder[Any]],
      exec.conf.sessionLocalTimeZone,
      ArrowPythonRunner.getPythonRunnerConfMap(exec.conf),
      JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)
    )
  }
}
