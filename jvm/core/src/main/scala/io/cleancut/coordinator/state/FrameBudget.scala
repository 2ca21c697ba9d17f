package io.cleancut.coordinator.state

import java.util.concurrent.atomic.AtomicLong

/**
 * Limit of the frames that a driver keeps in memory, for all of its queries. If the limit is
 * reached, no caller waits: the frame is written immediately, or by its executor.
 */
final class FrameBudget(maxBytes: Long) {
  private val used = new AtomicLong

  def usedBytes: Long = used.get

  /** A share of the budget with a limit of its own. */
  def room(maxBytes: Long): FrameRoom = new FrameRoom(this, maxBytes)

  private[coordinator] def tryTake(bytes: Long): Boolean = {
    val isTaken = used.addAndGet(bytes) <= maxBytes
    if (!isTaken) give(bytes)
    isTaken
  }

  private[coordinator] def take(bytes: Long): Unit = {
    used.addAndGet(bytes)
    ()
  }

  private[coordinator] def give(bytes: Long): Unit = take(-bytes)
}

object FrameBudget {
  private val MaxBytes = 256L << 20
  private val HeapShare = 4

  /** The budget of this process, if it is a driver. */
  lazy val ofDriver: FrameBudget =
    new FrameBudget(Math.min(MaxBytes, Runtime.getRuntime.maxMemory / HeapShare))
}

/** A share of a budget. Thread-safe. */
final class FrameRoom private[cleancut] (budget: FrameBudget, maxBytes: Long)
    extends AutoCloseable {
  private var bytes = 0L
  private var isOpen = true

  def tryTake(more: Long): Boolean = synchronized {
    val isTaken = isOpen && bytes + more <= maxBytes && budget.tryTake(more)
    if (isTaken) bytes += more
    isTaken
  }

  /** Takes space regardless of both limits, for frames that are about to be written. */
  def take(more: Long): Unit = synchronized {
    if (isOpen) {
      bytes += more
      budget.take(more)
    }
  }

  def give(less: Long): Unit = synchronized {
    val back = Math.min(less, bytes)
    bytes -= back
    budget.give(back)
  }

  /** Returns all space, and takes none from now on. */
  override def close(): Unit = synchronized {
    isOpen = false
    give(bytes)
  }
}
