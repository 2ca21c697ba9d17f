package io.cleancut.cutstore

import java.util.concurrent.{Executor, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import io.cleancut.base.Clock

/**
 * The markers of restore tests and replicas of a query, for metrics, whose threads must not wait
 * for a store. Returns the result of the last read, and starts another read in the background, at
 * most once a minute.
 *
 * @param read
 *   reads all markers
 */
final class NotesWatch(read: () => Notes, clock: Clock, background: Executor) {
  import NotesWatch._

  @volatile private var known = Option.empty[Notes]
  @volatile private var dueNs = Option.empty[Long]
  private val isLooking = new AtomicBoolean

  /** The result of the last read, without starting another one. */
  def latest: Option[Notes] = known

  /** Reads the markers now. */
  def refresh(): Notes = {
    val current = read()
    known = Some(current)
    dueNs = Some(clock.monotonicNs() + EveryNs)
    current
  }

  /** None before the first read. */
  def last: Option[Notes] = {
    val isDue = dueNs.forall(clock.monotonicNs() - _ >= 0)
    if (isDue && isLooking.compareAndSet(false, true)) {
      try background.execute(() => readNow())
      // The executor is shut down with the query.
      catch { case NonFatal(_) => isLooking.set(false) }
    }
    known
  }

  private def readNow(): Unit =
    try known = Some(read())
    // If the store is unavailable, the previous markers are kept.
    catch { case NonFatal(_) => () }
    finally {
      // A failed read is not repeated immediately.
      dueNs = Some(clock.monotonicNs() + EveryNs)
      isLooking.set(false)
    }
}

object NotesWatch {
  val EveryNs: Long = TimeUnit.MINUTES.toNanos(1)
}
