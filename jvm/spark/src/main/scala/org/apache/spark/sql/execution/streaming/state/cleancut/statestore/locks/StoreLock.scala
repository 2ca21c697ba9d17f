package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import org.apache.spark.TaskContext

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.error.Errors

/**
 * Allows one user at a time in a store. A user may enter several times, once for each handle, and
 * must leave as often. Others wait in order, at most `timeoutMs`.
 *
 * A task stays in until it ends, and not only until its commit, because rows that it emitted point
 * into the store's memory.
 */
final private[cleancut] class StoreLock(store: StoreId, timeoutMs: Long, clock: Clock) {
  import StoreLock.User

  private val lock = new ReentrantLock(true)
  private val left = lock.newCondition()
  private var user: Option[User] = None
  private var entries = 0

  /** Waits for the store; returns the time waited in nanoseconds. */
  def enter(by: User, version: Long): Long = {
    val start = clock.monotonicNs()
    lock.lockInterruptibly()
    try {
      var remaining = TimeUnit.MILLISECONDS.toNanos(timeoutMs)
      while (user.exists(_.key != by.key)) {
        if (remaining <= 0) throw busy(version)
        remaining = left.awaitNanos(remaining)
      }
      user = Some(by)
      entries += 1
    } finally lock.unlock()
    clock.monotonicNs() - start
  }

  /** Enters if no other user is in the store. */
  def tryEnter(by: User): Boolean = {
    lock.lock()
    try {
      val isFree = user.forall(_.key == by.key)
      if (isFree) {
        user = Some(by)
        entries += 1
      }
      isFree
    } finally lock.unlock()
  }

  /**
   * Leaves. If the store is free afterwards, `beforeLast` runs first, while other users still wait.
   */
  def leave(by: User)(beforeLast: => Unit): Unit = {
    lock.lock()
    try {
      require(
        user.exists(_.key == by.key),
        s"${by.description} left $store without having entered it"
      )
      if (entries == 1) beforeLast
    } finally {
      entries -= 1
      if (entries == 0) {
        user = None
        left.signalAll()
      }
      lock.unlock()
    }
  }

  private def busy(version: Long) = Errors.storeBusy(
    store.operator,
    store.partition,
    store.name,
    version,
    user.fold("nobody")(_.description),
    timeoutMs
  )
}

private[cleancut] object StoreLock {

  /** The user of a store: a task attempt or, outside a task, a thread. */
  final case class User(key: Any, description: String)

  object User {
    def current(): User = Option(TaskContext.get()) match {
      case Some(task) =>
        User(
          task.taskAttemptId(),
          s"task ${task.taskAttemptId()} (stage ${task.stageId()}, partition " +
            s"${task.partitionId()}, attempt ${task.attemptNumber()})"
        )
      case None =>
        val thread = Thread.currentThread
        User(thread, s"thread ${thread.getName}")
    }
  }
}
