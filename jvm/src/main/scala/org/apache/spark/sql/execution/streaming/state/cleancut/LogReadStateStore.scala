package org.apache.spark.sql.execution.streaming.state.cleancut

import io.cleancut.engine.StateLog
import io.cleancut.error.Errors

/**
 * A version of a store that a task only reads. It shows that version whatever is written meanwhile.
 */
final private[cleancut] class LogReadStateStore(
    context: StoreContext,
    stay: StoreStay,
    current: StoreVersions.Current,
    val read: StateLog.Version
) extends StoreHandle(context, current, read.mark.end) {
  @volatile private var isReleased = false

  override def version: Long = read.number

  override def abort(): Unit = release()

  override def release(): Unit = if (!isReleased) {
    gate { isReleased = true }
    stay.done()
  }

  override protected def verifyOpen(operation: String): Unit =
    if (isReleased) throw Errors.storeClosed(context.store.toString, operation)

  override def toString: String = s"LogReadStateStore[$context, version=$version]"
}
