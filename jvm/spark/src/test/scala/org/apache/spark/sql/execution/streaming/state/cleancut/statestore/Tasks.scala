package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.Properties
import java.util.concurrent.{Callable, Executors, Future}

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.{TaskContext, TaskContextImpl}

/** Threads and task attempts without an executor. */
object Tasks {

  /** A task attempt with its task context. */
  final class Attempt(id: Long, number: Int = 0) {
    private val context = new TaskContextImpl(
      1,
      0,
      0,
      id,
      number,
      1,
      null,
      new Properties,
      null,
      TaskMetrics.empty,
      TestedSpark.TaskCpus,
      Map.empty
    )

    def apply[A](body: => A): A = {
      TaskContext.setTaskContext(context)
      try body
      finally TaskContext.unset()
    }

    /** Completes the task, which runs its completion listeners. */
    def complete(): Unit = apply(context.markTaskCompleted(None))

    def fail(error: Throwable): Unit = apply {
      context.markTaskFailed(error)
      context.markTaskCompleted(Some(error))
    }
  }

  /** Runs `body` in a new thread. */
  def inThread[A](body: => A): Future[A] = {
    val thread = Executors.newSingleThreadExecutor()
    val task: Callable[A] = () => body
    try thread.submit(task)
    finally thread.shutdown()
  }
}
