package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import org.apache.spark.api.python.SimplePythonFunction
import org.apache.spark.sql.catalyst.expressions.{Expression, PythonUDF}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeTimeout
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.{
  FlatMapGroupsInPandasWithStateExec,
  TransformWithStateInPySparkExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.streaming.TimeMode

import io.cleancut.conf.Settings

/** Properties of a stateful operator with a Python function that capture requires. */
private[cleancut] object PythonOperator {

  def is(operator: SparkPlan): Boolean = operator match {
    case _: FlatMapGroupsInPandasWithStateExec | _: TransformWithStateInPySparkExec => true
    case _                                                                          => false
  }

  /** The reason why rows cannot be recalled from its worker, if any. */
  def refusal(operator: StateStoreWriter): Option[String] =
    if (isPipelined(operator)) Some(s"$Pipelined is true")
    else
      operator match {
        case transform: TransformWithStateInPySparkExec if transform.hasInitialState =>
          Some("it processes its initial state")
        case _ => None
      }

  /** The rows that it drops as late before its function receives them. */
  def dropped(operator: SparkPlan): Option[Expression] = operator match {
    case groups: FlatMapGroupsInPandasWithStateExec if groups.timeoutConf == EventTimeTimeout =>
      groups.watermarkExpressionForLateEvents
    case transform: TransformWithStateInPySparkExec if transform.timeMode == TimeMode.EventTime() =>
      transform.watermarkExpressionForLateEvents
    case _ => None
  }

  /**
   * The operator, with a function from which rows can be recalled if its input is captured.
   *
   * @param isAccelerated
   *   whether PySpark's loop over groups is replaced
   */
  def wrapped(operator: SparkPlan, isAccelerated: Boolean): SparkPlan = {
    val kind = operator match {
      case transform: TransformWithStateInPySparkExec => PythonFunctions.kindOf(transform)
      case _                                          => WorkerCommand.Groups
    }
    operator.transformExpressions { case udf: PythonUDF =>
      val original = udf.func
      val command = WorkerCommand.around(original.command.toArray, kind, isAccelerated)
      val function = new SimplePythonFunction(
        command,
        original.envVars,
        original.pythonIncludes,
        original.pythonExec,
        original.pythonVer,
        original.broadcastVars,
        original.accumulator
      )
      udf.copy(func = function)
    }
  }

  /** Whether PySpark's loop over groups is replaced. */
  def isAccelerated(operator: SparkPlan): Boolean = {
    val hasInitialState = operator match {
      case transform: TransformWithStateInPySparkExec => transform.hasInitialState
      case _                                          => false
    }
    !hasInitialState && !isPipelined(operator) &&
    Settings.from(new StateStoreConf(operator.conf).sqlConfs).acceleratesPython
  }

  // Its worker reads ahead in a separate thread.
  private def isPipelined(operator: SparkPlan): Boolean =
    operator.session.sparkContext.conf.getBoolean(Pipelined, defaultValue = false)

  private val Pipelined = "spark.python.udf.pipelined.enabled"
}
