package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ExecutionException}
import java.util.concurrent.Executors

import org.apache.spark.TaskContext

import io.cleancut.DaemonThreads

/**
 * The frames that one task attempt makes of the stores of one operator. A join has four, and
 * commits one after the other: each frame is on its way while the next is made, and the last commit
 * waits for all of them. So a task waits once for what is durable, and its frames go into one
 * object.
 */
final private class TaskFrames(isOver: () => Unit) {
  private var open = 0
  private var sent = List.empty[CompletableFuture[Unit]]

  /** A store will have a frame. */
  def begin(): Unit = synchronized {
    open += 1
  }

  /**
   * Sends a frame. Returns when all that the task has sent is durable, if this is the last of its
   * stores; else at once.
   */
  def commit(send: () => Unit): Unit = {
    val all = synchronized {
      open -= 1
      val isLast = open == 0
      if (isLast && sent.isEmpty) None
      else {
        sent ::= CompletableFuture.runAsync(() => send(), TaskFrames.threads).thenApply(_ => ())
        Some(if (isLast) sent.reverse else Nil)
      }
    }
    all.fold {
      isOver()
      send()
    }(await)
  }

  /** A store will have no frame. */
  def cancel(): Unit = await(synchronized {
    open -= 1
    if (open == 0) sent.reverse else Nil
  })

  private def await(all: List[CompletableFuture[Unit]]): Unit = if (all.nonEmpty) {
    isOver()
    try all.foreach(_.get())
    catch { case e: ExecutionException => throw e.getCause }
  }
}

private object TaskFrames {
  private val frames = new ConcurrentHashMap[(Long, Long), TaskFrames]

  // Each waits for an answer; as many as tasks have frames on their way.
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-send"))

  /** Those of the task that this thread runs, for an operator; None outside of a task. */
  def current(operator: Long): Option[TaskFrames] = Option(TaskContext.get()).map { task =>
    val key = (task.taskAttemptId(), operator)
    frames.computeIfAbsent(
      key,
      _ => {
        def forget(): Unit = {
          frames.remove(key)
          ()
        }
        // However it ends.
        task.addTaskCompletionListener[Unit](_ => forget())
        new TaskFrames(() => forget())
      }
    )
  }
}
