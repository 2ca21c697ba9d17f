package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker.PythonOperator
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

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case operator if PythonOperator.is(operator) && isQuerys(operator) =>
      val captured = operator.children.head match {
        case channel: ChannelExec => channel.settings.mode != CaptureMode.Aligned
        case _                    => false
      }
      val isAccelerated = PythonOperator.isAccelerated(operator)
      if (captured || isAccelerated) PythonOperator.wrapped(operator, isAccelerated)
      else operator
  }

  // Batch queries have no checkpoint.
  private def isQuerys(operator: SparkPlan): Boolean = operator match {
    case stateful: StatefulOperator =>
      stateful.stateInfo.exists(_.checkpointLocation.nonEmpty) &&
      TransformWithStateRule.isRequested(operator.conf)
    case _ => false
  }
}
