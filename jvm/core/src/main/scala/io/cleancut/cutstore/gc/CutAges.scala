package io.cleancut.cutstore.gc

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.cleancut.base.Clock
import io.cleancut.cutstore.StoreClock

/**
 * The ages of the cuts of one query, for retention by age: those of earlier runs by their write
 * times in the object store, those of this run by its monotonic clock. Needs no listing. Epochs
 * that were written within 1/512 of the retention are kept together, so that the memory is bounded.
 * Thread-safe.
 *
 * @param retentionMs
 *   age up to which a cut is young; 0 if none is kept for its age
 * @param earlier
 *   epoch and write time of each cut of earlier runs, by epoch
 */
final class CutAges(
    retentionMs: Long,
    earlier: Iterable[(Long, Long)],
    storeClock: StoreClock,
    clock: Clock
) {
  import CutAges._

  // In milliseconds of the store's clock, and in nanoseconds of the monotonic clock.
  private val before = new Groups(retentionMs / MaxGroups)
  private val current = new Groups(TimeUnit.MILLISECONDS.toNanos(retentionMs) / MaxGroups)
  if (retentionMs > 0L) earlier.foreach { case (epoch, ms) => before.add(epoch, ms) }

  /** This run has written the cut of an epoch. */
  def add(epoch: Long): Unit =
    if (retentionMs > 0L) synchronized(current.add(epoch, clock.monotonicNs()))

  /** An epoch before all young cuts; None if no cut is young. */
  def firstYoung(): Option[Long] =
    if (retentionMs == 0L) None
    else {
      // One request, at most once per run.
      val nowMs = if (synchronized(before.isEmpty)) None else storeClock.nowMs()
      val sinceNs = clock.monotonicNs() - TimeUnit.MILLISECONDS.toNanos(retentionMs)
      synchronized {
        // Without the time of the store, each of them may be young.
        val since = nowMs.fold(Long.MinValue)(_ - retentionMs)
        before.firstSince(since).orElse(current.firstSince(sinceNs))
      }
    }
}

private object CutAges {
  private val MaxGroups = 512L

  /** Consecutive epochs whose cuts were written at about the same time. */
  final private case class Group(first: Long, beginTime: Long, endTime: Long)

  final private class Groups(length: Long) {
    private val kept = mutable.ArrayDeque.empty[Group]

    def isEmpty: Boolean = kept.isEmpty

    def add(epoch: Long, time: Long): Unit = kept.lastOption match {
      case Some(last) if time - last.beginTime <= length =>
        kept(kept.size - 1) = last.copy(endTime = Math.max(last.endTime, time))
      case _ => kept.append(Group(epoch, time, time))
    }

    /**
     * Forgets groups that are older than a time, and returns the first epoch of the remaining ones.
     */
    def firstSince(time: Long): Option[Long] = {
      while (kept.headOption.exists(_.endTime < time)) kept.removeHead()
      kept.headOption.map(_.first)
    }
  }
}
