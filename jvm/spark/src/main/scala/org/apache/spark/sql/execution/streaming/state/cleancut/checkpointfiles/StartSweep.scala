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
 * Garbage collection at the start of a query. A long-running query collects garbage periodically,
 * but a query that runs hourly for one or two epochs rarely reaches that point, and ends during it.
 * The start waits for a limited time; the collection then continues while the query runs, or at the
 * next start. A successor runs for long, and its start must be short.
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
      if (!begun.isSuccessor && collector.isDue(cut.epoch) && collector.tryStart()) {
        val done = CompletableFuture.runAsync(() => sweep(archive, collector, cut), threads)
        try {
          done.get(MaxWaitMs, TimeUnit.MILLISECONDS)
          ()
        } catch {
          case _: TimeoutException =>
            logInfo(s"Garbage collection of ${archive.location} continues while the query runs")
        }
      }

  private def sweep(archive: CutArchive, collector: GarbageCollector, last: Cut): Unit =
    try collector.runAtStart(last)
    catch {
      case NonFatal(e) =>
        logWarning(s"Garbage collection of ${archive.location} failed and is postponed", e)
    }
}
