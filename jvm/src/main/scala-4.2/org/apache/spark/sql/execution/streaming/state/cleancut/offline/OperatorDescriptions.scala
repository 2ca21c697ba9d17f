package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution

/** Descriptions of a query's operators, which this line of Spark writes while it plans. */
private[offline] object OperatorDescriptions {
  def write(planned: IncrementalExecution): Unit = ()
}
