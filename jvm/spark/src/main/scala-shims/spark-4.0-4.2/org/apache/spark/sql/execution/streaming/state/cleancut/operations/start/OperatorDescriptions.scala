package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution

/** Descriptions of a query's operators, which these Spark versions write during planning. */
private[operations] object OperatorDescriptions {
  def write(planned: IncrementalExecution): Unit = ()
}
