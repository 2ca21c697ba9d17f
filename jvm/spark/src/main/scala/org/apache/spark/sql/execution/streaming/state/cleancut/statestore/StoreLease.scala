package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.StoreLock

import io.cleancut.engine.StateLog

/**
 * The right of one handle to use a store. In a task it lasts until the end of the task, because
 * rows that the task emitted point into the store; elsewhere until the handle is done.
 */
final private[cleancut] class StoreLease(
    context: StoreContext,
    versions: StoreVersions,
    user: StoreLock.User,
    isInTask: Boolean
) extends Logging {
  private var held: Option[StateLog] = None
  private var isOver = false

  /** Takes over a log that is held for the caller, until the lease ends. */
  def keep(log: StateLog): Unit = held = Some(log)

  /** The handle was committed, aborted or released. */
  def release(): Unit = if (!isInTask) end()

  /** Ends the lease; the second call has no effect. */
  def end(): Unit = {
    val isFirst = synchronized {
      val first = !isOver
      isOver = true
      first
    }
    if (isFirst) {
      held.foreach(_.release())
      context.storeLock.leave(user)(adoptCompaction())
      ReadThrough.consider(context, versions)
    }
  }

  // The task has done its work; a failure of the compaction must not fail it.
  private def adoptCompaction(): Unit =
    try if (!versions.adoptCompaction()) Compactor.follow(context, versions)
    catch { case NonFatal(e) => logWarning(s"Compaction of $context failed", e) }
}

private[cleancut] object StoreLease {

  /** The failure of a task, if it has failed. */
  private def failureOf(task: TaskContext): Option[Throwable] = {
    var latest = Option.empty[Throwable]
    // Spark calls a listener immediately if the task has already failed.
    task.addTaskFailureListener((_: TaskContext, failure: Throwable) => latest = Some(failure))
    latest
  }

  /**
   * Enters the store, waiting for another user to leave, and opens a handle. `atTaskEnd` closes the
   * handle if the task ends without doing so.
   */
  def open[A](context: StoreContext, versions: StoreVersions, version: Long)(
      opening: StoreLease => A
  )(atTaskEnd: A => Unit): A = {
    val user = StoreLock.User.current()
    val task = Option(TaskContext.get())
    // Another thread of such a task, for example one that writes to Python, would continue
    // needlessly.
    task.filter(_.isFailed()).flatMap(failureOf).foreach(failure => throw failure)
    context.metrics.waitNs.addAndGet(context.storeLock.enter(user, version))
    val lease = new StoreLease(context, versions, user, task.isDefined)
    try {
      val handle = opening(lease)
      task.foreach(_.addTaskCompletionListener[Unit] { _ =>
        try atTaskEnd(handle)
        finally lease.end()
      })
      handle
    } catch {
      case e: Throwable =>
        lease.end()
        throw e
    }
  }
}
