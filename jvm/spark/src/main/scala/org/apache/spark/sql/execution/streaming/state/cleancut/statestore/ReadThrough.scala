package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.StoreLock

import io.cleancut.base.DaemonThreads
import io.cleancut.engine.StateLog
import io.cleancut.engine.memory.MemoryAccount

/**
 * Reads the rest of the bases with which stores were opened, while no task uses them: one block at
 * a time, so that a task waits for at most one block. Rows beyond the memory limit stay on file
 * until they are requested.
 */
private[cleancut] object ReadThrough extends Logging {
  private val threads = DaemonThreads.pool("cleancut-read-through", max = 1)

  /** Blocks of one store before the next store is processed. */
  private val Turn = 16

  /** Blocks that are read while a task may have to wait for the store. */
  private val BlocksPerHold = 4

  /** Share of the memory limit up to which a base is read before its rows are requested. */
  private val Share = 0.7

  /** Queues the store if it has unread blocks. Called when a user has left it. */
  def consider(context: StoreContext, versions: StoreVersions): Unit =
    if (versions.isReadable && versions.isReadThrough.compareAndSet(false, true)) {
      threads.execute { () =>
        versions.isReadThrough.set(false)
        try
          if (readSome(context, versions)) consider(context, versions)
        catch {
          // A request for the rows causes the same error and reports it.
          case NonFatal(e) => logWarning(s"Reading the base of $context failed", e)
        }
      }
    }

  /**
   * Reads the complete log for maintenance, in short steps between which tasks can enter the store.
   * False if a task is in the store; it then reads the rest when it commits.
   */
  def complete(context: StoreContext, versions: StoreVersions, log: StateLog): Boolean = {
    var isMore = !log.isComplete
    while (isMore && exclusively(context, versions) { isMore = log.readNext(BlocksPerHold) }) {}
    if (isMore) log.wantWhole()
    !isMore
  }

  /** Reads some blocks; returns whether to continue. */
  private def readSome(context: StoreContext, versions: StoreVersions): Boolean =
    versions.retainCurrent().exists { log =>
      try (0 until Turn).forall(_ => readOne(context, versions, log))
      finally log.release()
    }

  private def readOne(context: StoreContext, versions: StoreVersions, log: StateLog): Boolean = {
    var isMore = false
    hasRoom(log) && exclusively(context, versions) { isMore = log.readNext(1) } && isMore
  }

  private def hasRoom(log: StateLog): Boolean = {
    val account = MemoryAccount.process
    account.residentBytes + log.liveBytes - log.residentBytes < account.boundBytes * Share
  }

  /**
   * Runs `body` as the only user of the store. False if a task is in it; waits for another reader
   * of the base.
   */
  private def exclusively(
      context: StoreContext,
      versions: StoreVersions
  )(body: => Unit): Boolean = {
    versions.baseReading.lock()
    try {
      val isIn = context.storeLock.tryEnter(self)
      if (isIn)
        try context.spinLock(body)
        finally context.storeLock.leave(self)(())
      isIn
    } finally versions.baseReading.unlock()
  }

  private def self = StoreLock.User(this, "the reading of a base")
}
