package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state.StateStoreId

/**
 * What a task has to do between the last row that its operator has processed and the commit of the
 * operator's store. Nothing else in a task tells when a Python worker is done.
 */
private[cleancut] object BeforeCommit {
  private val waiting = new ConcurrentHashMap[(Long, Long, Int), () => Unit]

  /** In the running task, once, for its store of an operator. Forgotten with the task. */
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

  /** A store is about to be committed. */
  def run(store: StateStoreId): Unit = {
    val task = TaskContext.get()
    if (task != null) {
      val action = waiting.remove((task.taskAttemptId(), store.operatorId, store.partitionId))
      if (action != null) action()
    }
  }
}
