package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.{HasStreamingSourceIdentifyingName, UserProvided}

/** Names of sources, as given to `readStream.name`. */
private[operations] object SourceNames {
  def of(source: LogicalPlan): Option[String] = source match {
    case named: HasStreamingSourceIdentifyingName =>
      Some(named.sourceIdentifyingName).collect { case UserProvided(name) => name }
    case _ => None
  }
}
