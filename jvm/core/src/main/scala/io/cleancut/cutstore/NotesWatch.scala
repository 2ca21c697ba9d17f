package io.cleancut.cutstore

import java.util.concurrent.{Executor, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import io.cleancut.base.Clock

/**
 * What others have noted of a query, for metrics, which are asked for by threads that are not to
 * wait for a store: what was known when it was last looked for. Who asks has it looked for again in
 * the background, at most once a minute.
 *
 * @param read
 *   all notes that there are
 */
final class NotesWatch(read: () => Notes, clock: Clock, background: Executor) {
  import NotesWatch._

  @volatile private var known = Option.empty[Notes]
  @volatile private var dueNs = Option.empty[Long]
  private val isLooking = new AtomicBoolean

  /** What was known last, without a look. */
  def seen: Option[Notes] = known

  /** Looks now, and gives what there is. */
  def look(): Notes = {
    val found = read()
    known = Some(found)
    dueNs = Some(clock.monotonicNs() + EveryNs)
    found
  }

  /** None before the first look. */
  def last: Option[Notes] = {
    val isDue = dueNs.forall(clock.monotonicNs() - _ >= 0)
    if (isDue && isLooking.compareAndSet(false, true)) {
      try background.execute(() => lookNow())
      // It is shut down with the query.
      catch { case NonFatal(_) => isLooking.set(false) }
    }
    known
  }

  private def lookNow(): Unit =
    try known = Some(read())
    // A store that is away for a moment takes nothing from what was noted.
    catch { case NonFatal(_) => () }
    finally {
      // One that has failed is not tried again at once.
      dueNs = Some(clock.monotonicNs() + EveryNs)
      isLooking.set(false)
    }
}

object NotesWatch {
  val EveryNs: Long = TimeUnit.MINUTES.toNanos(1)
}
