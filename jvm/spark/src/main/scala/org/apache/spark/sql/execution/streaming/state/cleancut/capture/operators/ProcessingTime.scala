package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import org.apache.spark.sql.catalyst.plans.logical.ProcessingTimeTimeout
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.streaming.TimeMode

/** Processing time of functions with state. */
private[cleancut] object ProcessingTime {

  /** Whether an operator has timeouts, timers or TTL in processing time. */
  def isUsed(operator: SparkPlan): Boolean = operator match {
    case groups: FlatMapGroupsWithStateExec         => groups.timeoutConf == ProcessingTimeTimeout
    case groups: FlatMapGroupsInPandasWithStateExec => groups.timeoutConf == ProcessingTimeTimeout
    case groups: TransformWithStateExec             => groups.timeMode == TimeMode.ProcessingTime()
    case groups: TransformWithStateInPySparkExec    => groups.timeMode == TimeMode.ProcessingTime()
    case _                                          => false
  }
}
