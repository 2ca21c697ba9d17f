package io.cleancut.cutstore.gc

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import io.cleancut.base.Clock
import io.cleancut.cutstore.{CutArchive, StoreClock}
import io.cleancut.format.SealName
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.ObjectInfo

/**
 * Garbage collection for one run of a query: at most one sweep at a time, whoever starts it. A
 * sweep first takes the permit ([[tryStart]]), and [[run]] returns it.
 *
 * @param ages
 *   of the query's cuts
 * @param storeClock
 *   for the ages of segments
 * @param seals
 *   those of earlier runs
 * @param permit
 *   whether a sweep of the query runs in this process
 */
final class GarbageCollector private[cleancut] (
    archive: CutArchive,
    retention: CutRetention,
    baseMargin: Long,
    ages: CutAges,
    storeClock: StoreClock,
    seals: Seq[SealName],
    isFollowed: () => Boolean,
    permit: AtomicBoolean,
    clock: Clock
) {
  import GarbageCollector._

  private val sweep = new CutSweep(archive, baseMargin, isFollowed)
  @volatile private var completeNs = Option.empty[Long]

  /** The savepoints that the last sweep could not read. */
  def unreadable: Seq[UnreadableSavepoint] = sweep.unreadable

  /** The cut of an epoch was written. */
  private[cleancut] def committed(epoch: Long): Unit = ages.add(epoch)

  /** Whether cuts can be beyond retention after an epoch. */
  def isDue(epoch: Long): Boolean = retention.oldestByNumber(epoch) > 0

  /** Takes the permit for a sweep; false if one runs. */
  def tryStart(): Boolean = permit.compareAndSet(false, true)

  /** Returns the permit of a sweep that does not run. */
  private[cleancut] def cancel(): Unit = permit.set(false)

  /**
   * Runs a sweep of the owner, with the permit.
   *
   * @param epoch
   *   the last epoch that is committed
   * @param served
   *   seals of epochs that have cuts
   * @param spared
   *   the segments to be left alone, by the oldest epoch that is kept
   * @return
   *   what was deleted, and the oldest epoch that was kept
   */
  private[cleancut] def run(epoch: Long, served: Seq[SealName])(
      spared: Long => Set[String]
  ): (CutSweep.Swept, Long) =
    try {
      val nowNs = clock.monotonicNs()
      val isComplete = completeNs.forall(nowNs - _ >= CompleteNs)
      val oldest = retention.oldest(epoch, ages)
      val swept = sweep.run(oldest, spared(oldest), isComplete, served)
      if (isComplete) completeNs = Some(nowNs)
      (swept, oldest)
    } finally cancel()

  /**
   * Runs a sweep at the start of a run, with the permit. The announcements of the run before are
   * not known, so that the segments of executors are left alone for an hour.
   *
   * @param last
   *   the last cut that the run found
   */
  def runAtStart(last: Cut): Unit =
    try {
      val nowMs = storeClock.nowMs()
      def isYoung(info: ObjectInfo) = !CutArchive.isOfDriver(info.key.name) &&
        nowMs.forall(info.modifiedMs >= _ - YoungMs)
      val oldest = retention.oldest(last.epoch, ages)
      // The run before may have written one more cut since.
      val cuts = last +: archive.cuts.head(last.epoch + 1).toSeq
      val spared = cuts.flatMap(_.spared(oldest)).toSet
      val served = seals.filter(_.epoch <= last.epoch)
      sweep.run(oldest, spared, isComplete = false, served, isYoung)
      ()
    } finally cancel()
}

object GarbageCollector {

  /** How long a segment may be that a run before this one is about to name. */
  private[cutstore] val YoungMs = 3600000L

  /** Between two sweeps that list all objects. */
  private val CompleteNs = TimeUnit.DAYS.toNanos(1)
}
