package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.StoreLock

import io.cleancut.engine.StateLog

/**
 * The right of one handle to use a store. In a task it lasts until the task has ended, since rows
 * that the task passed on point into the store; elsewhere until the handle is done.
 */
final private[cleancut] class StoreLease(
    context: StoreContext,
    versions: StoreVersions,
    user: StoreLock.User,
    isInTask: Boolean
) extends Logging {
  private var held: Option[StateLog] = None
  private var isOver = false

  /** Takes over a log that is held for the caller, for as long as the lease lasts. */
  def keep(log: StateLog): Unit = held = Some(log)

  /** The handle was committed, aborted or released. */
  def done(): Unit = if (!isInTask) end()

  /** Ends the lease; does nothing the second time. */
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

  // The task has done its work; that a copy of its log cannot be had is no reason to fail it.
  private def adoptCompaction(): Unit =
    try if (!versions.adoptCompaction()) Compactor.follow(context, versions)
    catch { case NonFatal(e) => logWarning(s"Compaction of $context failed", e) }
}

private[cleancut] object StoreLease {

  /** Of a task that has failed. */
  private def failureOf(task: TaskContext): Option[Throwable] = {
    var found = Option.empty[Throwable]
    // A listener that comes too late is called at once.
    task.addTaskFailureListener((_: TaskContext, failure: Throwable) => found = Some(failure))
    found
  }

  /**
   * Enters the store, waiting for another user to leave, and opens a handle there. `atTaskEnd`
   * closes the handle if the task ends and has not done it.
   */
  def open[A](context: StoreContext, versions: StoreVersions, version: Long)(
      opening: StoreLease => A
  )(atTaskEnd: A => Unit): A = {
    val user = StoreLock.User.current()
    val task = Option(TaskContext.get())
    // Another thread of such a task, as one that writes to Python, would work on for nobody.
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
