package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes.Append
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._

/**
 * Operators whose output is known not to be late for downstream operators although they have
 * in-flight rows. Such a row is below the watermark of its epoch, by which downstream operators
 * drop rows in the following epoch. They receive the watermark through the upstream operators, see
 * Spark's `WatermarkPropagator`.
 */
private[cleancut] object LatenessProof {

  def of(operator: StateStoreWriter, plan: SparkPlan): Boolean =
    !hasWatermarkDownstream(operator, plan) && (operator match {
      // It emits groups that its watermark has passed, which have no in-flight rows. So in each
      // epoch it emits the same rows as without a cut.
      case aggregate: StateStoreSaveExec =>
        aggregate.outputMode.contains(Append) && aggregate.watermarkExpressionForEviction.nonEmpty
      case sessions: SessionWindowStateStoreSaveExec =>
        sessions.outputMode.contains(Append) && sessions.eventTimeWatermarkForEviction.nonEmpty
      // These emit the row itself.
      case distinct: BaseStreamingDeduplicateExec =>
        distinct.watermarkExpressionForEviction.nonEmpty
      // The row is joined with rows that the join still stored at that watermark. An outer join
      // also emits evicted rows, one epoch later while it has in-flight rows.
      case join: StreamingSymmetricHashJoinExec =>
        val kept = join.stateWatermarkPredicates
        join.joinType == Inner && kept.left.nonEmpty && kept.right.nonEmpty
      case _ => false
    })

  /**
   * Whether a downstream operator derives another watermark from its output, which might be ahead.
   */
  private def hasWatermarkDownstream(operator: SparkPlan, plan: SparkPlan): Boolean = plan.exists {
    case watermark: EventTimeWatermarkExec => watermark.exists(_ eq operator)
    case _                                 => false
  }
}
