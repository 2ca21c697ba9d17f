package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import org.apache.spark.SPARK_VERSION
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

import io.cleancut.conf.{Keys, Settings}

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

  /** Whether PySpark's loop over groups is replaced, if the worker has the expected one. */
  def isAccelerated(operator: SparkPlan): Boolean = plainBecause(operator).isEmpty

  /** The reason why PySpark's loop over groups is not, or may not be, replaced. */
  def pysparkLoopBecause(operator: SparkPlan): Option[String] = {
    // The workers compare the text of the loop.
    val unknown = Option.when(!LoopVersions.contains(SPARK_VERSION))(
      s"the loop of PySpark $SPARK_VERSION is replaced only if it is equal to that of a known " +
        "version; the log of the Python workers has a warning if it is not"
    )
    plainBecause(operator).orElse(unknown)
  }

  private def plainBecause(operator: SparkPlan): Option[String] = operator match {
    case _ if !Settings.from(new StateStoreConf(operator.conf).sqlConfs).acceleratesPython =>
      Some(s"${Keys.AcceleratePython.name} is false")
    case _ if isPipelined(operator) => Some(s"$Pipelined is true")
    case transform: TransformWithStateInPySparkExec if transform.hasInitialState =>
      Some("it processes its initial state")
    case _ => None
  }

  // Its worker reads ahead in a separate thread.
  private def isPipelined(operator: SparkPlan): Boolean =
    operator.session.sparkContext.conf.getBoolean(Pipelined, defaultValue = false)

  private val Pipelined = "spark.python.udf.pipelined.enabled"

  /** The releases whose loops have the hashes in the worker's modules. */
  private[cleancut] val LoopVersions: Set[String] = Set(
    (1 to 5).map(patch => s"4.0.$patch"),
    (0 to 4).map(patch => s"4.1.$patch"),
    (0 to 1).map(patch => s"4.2.$patch"),
    Seq("4.3.0")
  ).flatten
}
