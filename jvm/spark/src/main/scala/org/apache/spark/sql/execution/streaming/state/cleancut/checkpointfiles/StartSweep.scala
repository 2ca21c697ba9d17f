package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.util.concurrent.{CompletableFuture, Executors, TimeUnit, TimeoutException}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.cleancut.base.DaemonThreads
import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.GarbageCollector
import io.cleancut.format.cut.Cut

/**
 * Deletes at the start of a query what no kept cut needs. A query that runs for long does so by
 * itself every some epochs; one that is started each hour for an epoch or two seldom comes to that,
 * and ends in the middle of it. The start waits for it, but not for ever: what is left then goes
 * while the query runs, or at the next start.
 */
object StartSweep extends Logging {
  private val MaxWaitMs = 10000L
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-sweep"))

  /**
   * @param begun
   *   the run that owns the query
   */
  def run(archive: CutArchive, begun: Begun): Unit =
    for (cut <- begun.cut; collector <- begun.collector)
      if (collector.isDue(cut.epoch) && collector.tryStart()) {
        val done = CompletableFuture.runAsync(() => sweep(archive, collector, cut), threads)
        try {
          done.get(MaxWaitMs, TimeUnit.MILLISECONDS)
          ()
        } catch {
          case _: TimeoutException =>
            logInfo(s"The sweep of ${archive.location} goes on while the query runs")
        }
      }

  private def sweep(archive: CutArchive, collector: GarbageCollector, last: Cut): Unit =
    try collector.runAtStart(last)
    catch {
      case NonFatal(e) => logWarning(s"The sweep of ${archive.location} is put off", e)
    }
}
