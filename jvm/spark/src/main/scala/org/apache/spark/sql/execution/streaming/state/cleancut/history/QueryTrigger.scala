package org.apache.spark.sql.execution.streaming.state.cleancut.history

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

import io.cleancut.history.TriggerTimes

/**
 * The running epoch of a query in Spark. Spark publishes its progress only after the commit, so its
 * measurements are read when the commit begins.
 */
final private[history] class QueryTrigger(query: StreamExecution) extends Logging {

  /** Spark's measurements of an epoch; None if it runs another one. */
  def times(epoch: Long): Option[TriggerTimes] =
    try {
      val context = query.getLatestExecutionContext()
      Option.when(context.batchId == epoch) {
        val durations = TriggerTimes.Names.flatMap(name => context.getDuration(name).map(name -> _))
        val elapsedMs = query.triggerClock.getTimeMillis() - startOf(context)
        TriggerTimes(Math.max(0L, elapsedMs), durations.toMap)
      }
    } catch {
      case NonFatal(e) =>
        logWarning(s"Spark's measurements of epoch $epoch are unknown", e)
        None
    }

  /** Protected in Scala and public in the class file. */
  private def startOf(context: AnyRef): Long =
    context.getClass.getMethod("currentTriggerStartTimestamp").invoke(context).asInstanceOf[Long]

  /** The names of the state operators by their IDs. */
  def operators: Map[Long, String] =
    Option(query.lastExecution).fold(Map.empty[Long, String]) { execution =>
      execution.executedPlan.collect {
        case writer: StateStoreWriter if writer.stateInfo.isDefined =>
          writer.stateInfo.get.operatorId -> writer.shortName
      }.toMap
    }
}
