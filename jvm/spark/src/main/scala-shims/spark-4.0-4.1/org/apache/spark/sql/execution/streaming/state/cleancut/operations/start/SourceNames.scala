package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import scala.annotation.unused

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Names of sources, which do not exist in these Spark versions. */
private[operations] object SourceNames {
  def of(@unused source: LogicalPlan): Option[String] = None
}
