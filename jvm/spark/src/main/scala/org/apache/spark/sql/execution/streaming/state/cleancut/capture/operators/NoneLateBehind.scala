package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes.Append
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join._

/**
 * Of which operators it is known that what they hand on is not late for those behind them, although
 * rows stay in flight to them. Such a row is behind the watermark of its epoch, by which the next
 * operators drop rows in the epoch that follows; what they know of it comes through the operators
 * before them, see Spark's `WatermarkPropagator`.
 */
private[cleancut] object NoneLateBehind {

  def of(operator: StateStoreWriter, plan: SparkPlan): Boolean =
    !hasOwnWatermarkBehind(operator, plan) && (operator match {
      // It hands on what its watermark has passed, of which nothing stays in flight. So it hands on
      // in each epoch what it would have without a cut.
      case aggregate: StateStoreSaveExec =>
        aggregate.outputMode.contains(Append) && aggregate.watermarkExpressionForEviction.nonEmpty
      case sessions: SessionWindowStateStoreSaveExec =>
        sessions.outputMode.contains(Append) && sessions.eventTimeWatermarkForEviction.nonEmpty
      // These hand on the row itself.
      case distinct: BaseStreamingDeduplicateExec =>
        distinct.watermarkExpressionForEviction.nonEmpty
      // It meets rows that the join still kept at that watermark. An outer join also hands on rows
      // that it evicts, which it does an epoch later while it is fed.
      case join: StreamingSymmetricHashJoinExec =>
        val kept = join.stateWatermarkPredicates
        join.joinType == Inner && kept.left.nonEmpty && kept.right.nonEmpty
      case _ => false
    })

  /** Whether a watermark is made of what the operator hands on, which might run ahead of it. */
  private def hasOwnWatermarkBehind(operator: SparkPlan, plan: SparkPlan): Boolean = plan.exists {
    case watermark: EventTimeWatermarkExec => watermark.exists(_ eq operator)
    case _                                 => false
  }
}
