package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.sql.catalyst.expressions.{Ascending, SortOrder}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SortExec, SparkPlan}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.streaming.StatefulProcessor

/**
 * Makes the sort before the operator of [[SequenceProcessor]] also sort the rows of a key by
 * number. Spark sorts by key in any case, and can spill, which the processor cannot.
 */
object SequenceRule extends Rule[SparkPlan] {

  /** The rule, applied when sorts are in the plan and stages are not. */
  val injection: ColumnarRule = new ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = SequenceRule
  }

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case Sequenced(exec, processor, sort) if !processor.isSorted =>
      val number = exec.dataAttributes(processor.orderedBy)
      val order = sort.sortOrder.filterNot(_.child.semanticEquals(number))
      val sorted = sort.copy(sortOrder = order :+ SortOrder(number, Ascending))
      exec.copy(
        child = sorted,
        statefulProcessor = processor
          .sorted(exec.getStateInfo.operatorId)
          .asInstanceOf[StatefulProcessor[Any, Any, Any]]
      )
  }

  private object Sequenced {
    def unapply(
        plan: SparkPlan
    ): Option[(TransformWithStateExec, SequenceProcessor, SortExec)] = plan match {
      case exec: TransformWithStateExec =>
        (exec.statefulProcessor: Any, exec.child) match {
          case (processor: SequenceProcessor, sort: SortExec) if !sort.global =>
            Some((exec, processor, sort))
          case _ => None
        }
      case _ => None
    }
  }
}
