package io.cleancut.files

import java.util.concurrent.{CompletableFuture, Executors, TimeUnit, TimeoutException}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.cleancut.{Clock, DaemonThreads}
import io.cleancut.cuts.{Begun, CutArchive, CutRetention, CutSweep, QueryLedger, StoredCut}
import io.cleancut.format.Cut

/**
 * Deletes at the start of a query what no kept cut needs. A query that runs for long does so by
 * itself every some epochs; one that is started each hour for an epoch or two seldom comes to that,
 * and ends in the middle of it. The start waits for it, but not for ever: what is left then goes
 * while the query runs, or at the next start.
 */
private[files] object StartSweep extends Logging {
  private val MaxWaitMs = 10000L
  private val YoungMs = 3600000L
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-sweep"))

  /**
   * @param begun
   *   the run that owns the query
   * @param cut
   *   the last
   * @param retention
   *   which are kept beside it
   */
  def run(archive: CutArchive, begun: Begun, cut: Cut, retention: CutRetention): Unit =
    if (cut.epoch - retention.epochs > 0) {
      val done = CompletableFuture.runAsync(() => sweep(archive, begun, cut, retention), threads)
      try {
        done.get(MaxWaitMs, TimeUnit.MILLISECONDS)
        ()
      } catch {
        case _: TimeoutException =>
          logInfo(s"The sweep of ${archive.location} goes on while the query runs")
      }
    }

  /**
   * What the last cut lists for that, and what the run before may be about to name: of its
   * announcements nobody knows here.
   */
  private def spared(archive: CutArchive, oldest: Long): Set[String] = {
    val listed = archive.last().toSet[StoredCut].flatMap(_.head.spared(oldest))
    listed ++ archive.executorSegmentsSince(Clock.System.wallMs() - YoungMs)
  }

  private def sweep(
      archive: CutArchive,
      begun: Begun,
      cut: Cut,
      retention: CutRetention
  ): Unit =
    try {
      val oldest = retention.oldest(archive, cut.epoch, Clock.System.wallMs())
      def isFollowed = archive.isOwned(begun.generation + 1)
      new CutSweep(archive, QueryLedger.BaseMargin, () => isFollowed)
        .run(oldest, spared(archive, oldest))
      ()
    } catch {
      case NonFatal(e) => logWarning(s"The sweep of ${archive.location} is put off", e)
    }
}
