package org.apache.spark.sql.execution.streaming.state.cleancut.channels

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

/** Keys of an operator that have in-flight rows. Not thread-safe. */
private[cleancut] trait InFlightKeys {

  /**
   * @param key
   *   the grouping columns of the operator
   */
  def contains(key: InternalRow): Boolean
}

/** In-flight keys of running tasks, by which an operator learns what its channel has captured. */
private[cleancut] object InFlightKeys {
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

  /** Keys of an operator in a task; none if the task leaves no rows in flight. */
  def of(attempt: Long, operator: Long): Option[InFlightKeys] =
    Option(registered.get((attempt, operator)))
}
