package io.cleancut.cutstore.gc

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import io.cleancut.base.Clock
import io.cleancut.cutstore.{CutArchive, StoreClock}
import io.cleancut.format.SealName
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.ObjectInfo

/**
 * Garbage collection for one run of a query: at most one at a time, regardless of the caller. The
 * caller first takes the permit ([[tryStart]]), and [[run]] returns it.
 *
 * @param ages
 *   ages of the query's cuts
 * @param storeClock
 *   clock for the ages of segments
 * @param seals
 *   seals of earlier runs
 * @param permit
 *   whether a garbage collection of the query runs in this process
 */
final class GarbageCollector private[cleancut] (
    archive: CutArchive,
    retention: CutRetention,
    baseMargin: Long,
    ages: CutAges,
    storeClock: StoreClock,
    seals: Seq[SealName],
    deletesOnlyCuts: () => Boolean,
    permit: AtomicBoolean,
    clock: Clock
) {
  import GarbageCollector._

  private val sweep = new CutSweep(archive, baseMargin, deletesOnlyCuts)
  @volatile private var completeNs = Option.empty[Long]

  /** The savepoints that the last garbage collection could not read. */
  def unreadable: Seq[UnreadableSavepoint] = sweep.unreadable

  /** The cut of an epoch was written. */
  private[cleancut] def committed(epoch: Long): Unit = ages.add(epoch)

  /** Whether cuts may be beyond retention after an epoch. */
  def isDue(epoch: Long): Boolean = retention.oldestByNumber(epoch) > 0

  /** Takes the permit; false if a garbage collection is running. */
  def tryStart(): Boolean = permit.compareAndSet(false, true)

  /** Returns the permit without running. */
  private[cleancut] def cancel(): Unit = permit.set(false)

  /**
   * Runs a garbage collection of the owner, with the permit.
   *
   * @param epoch
   *   last committed epoch
   * @param served
   *   seals of epochs that have cuts
   * @param retained
   *   function of the oldest retained epoch that returns the segments to keep
   * @return
   *   the deleted objects, and the oldest retained epoch
   */
  private[cleancut] def run(epoch: Long, served: Seq[SealName])(
      retained: Long => Set[String]
  ): (CutSweep.Swept, Long) =
    try {
      val nowNs = clock.monotonicNs()
      val isComplete = completeNs.forall(nowNs - _ >= CompleteNs)
      val oldest = retention.oldest(epoch, ages)
      val swept = sweep.run(oldest, retained(oldest), isComplete, served)
      if (isComplete) completeNs = Some(nowNs)
      (swept, oldest)
    } finally cancel()

  /**
   * Runs a garbage collection at the start of a run, with the permit. The announcements of the
   * previous run are not known, so segments of executors are kept for an hour.
   *
   * @param last
   *   last cut that the run found
   */
  def runAtStart(last: Cut): Unit =
    try {
      val nowMs = storeClock.nowMs()
      def isYoung(info: ObjectInfo) = !CutArchive.isOfDriver(info.key.name) &&
        nowMs.forall(info.modifiedMs >= _ - YoungMs)
      val oldest = retention.oldest(last.epoch, ages)
      // The previous run may have written one more cut since.
      val cuts = last +: archive.cuts.head(last.epoch + 1).toSeq
      val retained = cuts.flatMap(_.retainedSegments(oldest)).toSet
      val served = seals.filter(_.epoch <= last.epoch)
      sweep.run(oldest, retained, isComplete = false, served, isYoung)
      ()
    } finally cancel()
}

object GarbageCollector {

  /** Age up to which an earlier run may be about to reference a segment. */
  private[cutstore] val YoungMs = 3600000L

  /** Number of garbage collections between two complete listings. */
  private val CompleteNs = TimeUnit.DAYS.toNanos(1)
}
