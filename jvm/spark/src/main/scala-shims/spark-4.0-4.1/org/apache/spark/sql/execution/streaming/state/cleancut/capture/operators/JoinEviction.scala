package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.execution.streaming.operators.stateful.join.{
  StreamingSymmetricHashJoinExec,
  StreamingSymmetricHashJoinHelper
}

/** A join that evicts its state at a watermark, including all earlier state. */
private[cleancut] object JoinEviction {

  def at(
      join: StreamingSymmetricHashJoinExec,
      watermark: Option[Long]
  ): StreamingSymmetricHashJoinExec = join.copy(
    eventTimeWatermarkForEviction = watermark,
    stateWatermarkPredicates = StreamingSymmetricHashJoinHelper.getStateWatermarkPredicates(
      join.left.output,
      join.right.output,
      join.leftKeys,
      join.rightKeys,
      join.condition.full,
      watermark,
      useFirstEventTimeColumn = false
    )
  )
}
