package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks

import java.util.concurrent.atomic.AtomicInteger

/**
 * A spin lock around the short operations on a store. Two threads of one task rarely use the store
 * concurrently (a Python operator may read in one and write in the other), so the uncontended cost
 * matters: one compare-and-set, a third of the cost of a monitor.
 */
final private[cleancut] class SpinLock extends AtomicInteger {

  /** Runs `body` under the lock. On hot paths, [[enter]] and [[leave]] avoid the closure. */
  def apply[A](body: => A): A = {
    enter()
    try body
    finally leave()
  }

  def enter(): Unit = while (!compareAndSet(0, 1)) Thread.onSpinWait()
  def leave(): Unit = setRelease(0)
}
