package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.StoreLock

import io.cleancut.base.DaemonThreads
import io.cleancut.engine.StateLog
import io.cleancut.engine.memory.MemoryAccount

/**
 * Reads what is left of the bases that stores were opened with, while no task is in them: a block
 * at a time, so that a task that comes waits for a block at most. What would not fit into the
 * memory that rows may take stays on file until somebody asks for it.
 */
private[cleancut] object ReadThrough extends Logging {
  private val threads = DaemonThreads.pool("cleancut-read-through", max = 1)

  /** Blocks of one store after which another one has its turn. */
  private val Turn = 16

  /** Blocks that are read while a task may have to wait for the store. */
  private val BlocksPerHold = 4

  /** Of the bound on memory, up to which a base is read before its rows are asked for. */
  private val Share = 0.7

  /** Queues the store if there is something to read. Called when a user has left it. */
  def consider(context: StoreContext, versions: StoreVersions): Unit =
    if (versions.isReadable && versions.isReadThrough.compareAndSet(false, true)) {
      threads.execute { () =>
        versions.isReadThrough.set(false)
        try
          if (readSome(context, versions)) consider(context, versions)
        catch {
          // Whoever asks for the rows meets the same, and says so.
          case NonFatal(e) => logWarning(s"Reading the base of $context failed", e)
        }
      }
    }

  /**
   * Reads all of a log for maintenance, in short holds of the store between which tasks enter.
   * False if a task is in the store; it then reads the rest when it commits.
   */
  def complete(context: StoreContext, versions: StoreVersions, log: StateLog): Boolean = {
    var isMore = !log.isComplete
    while (isMore && alone(context, versions) { isMore = log.takeInNext(BlocksPerHold) }) {}
    if (isMore) log.wantWhole()
    !isMore
  }

  /** Reads some blocks; whether it is worth to go on. */
  private def readSome(context: StoreContext, versions: StoreVersions): Boolean =
    versions.retainCurrent().exists { log =>
      try (0 until Turn).forall(_ => readOne(context, versions, log))
      finally log.release()
    }

  private def readOne(context: StoreContext, versions: StoreVersions, log: StateLog): Boolean = {
    var isMore = false
    hasRoom(log) && alone(context, versions) { isMore = log.takeInNext(1) } && isMore
  }

  private def hasRoom(log: StateLog): Boolean = {
    val account = MemoryAccount.process
    account.residentBytes + log.liveBytes - log.residentBytes < account.boundBytes * Share
  }

  /**
   * Runs `body` as the one user of the store. False if a task is in it; another reader of the base
   * is waited for.
   */
  private def alone(context: StoreContext, versions: StoreVersions)(body: => Unit): Boolean = {
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
