package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperator,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker.PythonOperator
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TransformWithStateRule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

import io.cleancut.conf.CaptureMode

/**
 * Wraps the functions of Python operators with state: rows that were sent to the worker may stay in
 * flight if their input is captured, and PySpark's loop over groups is replaced if the session
 * allows it.
 */
object PythonWorkerRule extends Rule[SparkPlan] {

  /** The rule, applied after [[ChannelRule]]. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = PythonWorkerRule
  }

  override def apply(plan: SparkPlan): SparkPlan = {
    report(plan)
    plan.transformUp {
      case operator if PythonOperator.is(operator) && stateInfo(operator).isDefined =>
        val captured = operator.children.head match {
          case channel: ChannelExec => channel.settings.mode != CaptureMode.Aligned
          case _                    => false
        }
        val isAccelerated = PythonOperator.isAccelerated(operator)
        if (captured || isAccelerated) PythonOperator.wrapped(operator, isAccelerated)
        else operator
    }
  }

  /** Makes `status()` show why PySpark's loop is not replaced. */
  private def report(plan: SparkPlan): Unit = {
    val reasons = for {
      operator <- plan.collect { case node if PythonOperator.is(node) => node }
      info <- stateInfo(operator)
      reason <- PythonOperator.pysparkLoopBecause(operator)
    } yield (info, reason)
    for {
      (info, _) <- reasons.headOption
      cuts <- DriverCuts.of(StoreFiles.checkpointOf(info.checkpointLocation).toString)
    } cuts.pysparkLoopBecause(
      info.queryRunId.toString,
      reasons.map { case (state, reason) => state.operatorId -> reason }.toMap
    )
  }

  // Batch queries have no checkpoint.
  private def stateInfo(operator: SparkPlan): Option[StatefulOperatorStateInfo] = operator match {
    case stateful: StatefulOperator if TransformWithStateRule.isRequested(operator.conf) =>
      stateful.stateInfo.filter(_.checkpointLocation.nonEmpty)
    case _ => None
  }
}
