package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.TaskContext

import io.cleancut.engine.StateLog

/**
 * One handle's stay in a store. In a task it lasts until the task has ended, since rows that the
 * task passed on point into the store; elsewhere until the handle is done.
 */
final private[cleancut] class StoreStay(
    context: StoreContext,
    versions: StoreVersions,
    user: StoreUser,
    isInTask: Boolean
) {
  private var held: Option[StateLog] = None
  private var isOver = false

  /** Keeps the log's memory for as long as the stay lasts. */
  def hold(log: StateLog): Unit = {
    require(log.retain(), s"the log of ${context.store} has been freed")
    held = Some(log)
  }

  /** The handle was committed, aborted or released. */
  def done(): Unit = if (!isInTask) end()

  /** Ends the stay; does nothing the second time. */
  def end(): Unit = {
    val isFirst = synchronized {
      val first = !isOver
      isOver = true
      first
    }
    if (isFirst) {
      held.foreach(_.release())
      context.access.leave(user)(versions.adoptCompaction())
    }
  }
}

private[cleancut] object StoreStay {

  /**
   * Enters the store, waiting for another user to leave, and opens a handle there. `atTaskEnd`
   * closes the handle if the task ends and has not done it.
   */
  def open[A](context: StoreContext, versions: StoreVersions, version: Long)(
      opening: StoreStay => A
  )(atTaskEnd: A => Unit): A = {
    val user = StoreUser.current()
    val task = Option(TaskContext.get())
    context.metrics.waitNs.addAndGet(context.access.enter(user, version))
    val stay = new StoreStay(context, versions, user, task.isDefined)
    try {
      val handle = opening(stay)
      task.foreach(_.addTaskCompletionListener[Unit] { _ =>
        try atTaskEnd(handle)
        finally stay.end()
      })
      handle
    } catch {
      case e: Throwable =>
        stay.end()
        throw e
    }
  }
}
