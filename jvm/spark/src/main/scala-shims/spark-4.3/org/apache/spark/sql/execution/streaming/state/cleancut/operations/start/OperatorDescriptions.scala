package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution

/** Descriptions of a query's operators, which this line of Spark writes when it is told to. */
private[operations] object OperatorDescriptions {
  def write(planned: IncrementalExecution): Unit = planned.writeRecordedStateMetadata()
}
