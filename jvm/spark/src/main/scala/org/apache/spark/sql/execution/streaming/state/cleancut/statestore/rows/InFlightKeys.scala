package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * Keys of an operator that have in-flight rows, in one task. Not thread-safe.
 *
 * @param keyFields
 *   number of grouping columns
 * @param hasProcessingTime
 *   whether the operator has timeouts or timers in processing time
 * @param isInFlight
 *   whether a key, given by its grouping columns, has in-flight rows
 */
final private[cleancut] class InFlightKeys(
    keyFields: Int,
    hasProcessingTime: Boolean,
    isInFlight: InternalRow => Boolean
) {
  def contains(key: InternalRow): Boolean = isInFlight(key)

  /**
   * Rows of a state family that a scan for expired keys must skip, if it is such a scan. A timeout
   * or timer in processing time expires only for a key without in-flight rows.
   */
  def skipped(family: String): Option[UnsafeRow => Boolean] =
    if (!hasProcessingTime) None
    // (flat)MapGroupsWithState scans its state only for timeouts.
    else if (family == StateStore.DEFAULT_COL_FAMILY_NAME) Some(contains(_))
    // The key is the second column, after the time of the timer.
    else if (family == InFlightKeys.Timers) Some(row => contains(row.getStruct(1, keyFields)))
    else None
}

/**
 * In-flight keys of running tasks. An operator reads from it which keys its shuffle input has
 * captured.
 */
private[cleancut] object InFlightKeys {
  // The same as in Spark's TimerStateUtils, which is in another package in Spark 4.0.
  private val Timers = "$procTimers_timestampToKey"

  private val registered = new ConcurrentHashMap[(Long, Long), InFlightKeys]

  /** Registers the keys of an operator until the running task ends. */
  def register(operator: Long, keys: InFlightKeys): Unit = {
    val task = TaskContext.get()
    val id = (task.taskAttemptId(), operator)
    registered.put(id, keys)
    task.addTaskCompletionListener[Unit] { _ =>
      registered.remove(id)
      ()
    }
    ()
  }

  /** Keys of an operator in a task; none if the task leaves no in-flight rows. */
  def of(attempt: Long, operator: Long): Option[InFlightKeys] =
    Option(registered.get((attempt, operator)))
}
