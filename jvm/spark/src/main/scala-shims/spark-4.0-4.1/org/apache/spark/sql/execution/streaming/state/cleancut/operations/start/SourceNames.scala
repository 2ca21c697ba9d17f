package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import scala.annotation.unused

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Names of sources, which these Spark versions do not have. */
private[operations] object SourceNames {
  def of(@unused source: LogicalPlan): Option[String] = None
}
