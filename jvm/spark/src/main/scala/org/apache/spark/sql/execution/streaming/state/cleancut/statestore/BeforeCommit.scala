package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state.StateStoreId

/**
 * Actions of a task between the last row of an operator and the commit of the operator's store. No
 * other hook shows that a Python worker is done.
 */
private[cleancut] object BeforeCommit {
  private val waiting = new ConcurrentHashMap[(Long, Long, Int), () => Unit]

  /**
   * Registers an action in the running task, once for its store of an operator. Removed at the end
   * of the task.
   */
  def register(operator: Long, partition: Int)(action: () => Unit): Unit = {
    val task = TaskContext.get()
    val key = (task.taskAttemptId(), operator, partition)
    waiting.put(key, action)
    task.addTaskCompletionListener[Unit] { _ =>
      waiting.remove(key)
      ()
    }
    ()
  }

  /** Called before a store is committed. */
  def run(store: StateStoreId): Unit = {
    val task = TaskContext.get()
    if (task != null) {
      val action = waiting.remove((task.taskAttemptId(), store.operatorId, store.partitionId))
      if (action != null) action()
    }
  }
}
