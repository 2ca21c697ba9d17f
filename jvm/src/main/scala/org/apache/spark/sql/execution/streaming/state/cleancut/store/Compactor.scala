package org.apache.spark.sql.execution.streaming.state.cleancut.store

import java.util.concurrent.Executors

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.cleancut.DaemonThreads
import io.cleancut.engine.{Compaction, StateLog}

/**
 * Compacts logs, one at a time in each JVM, so that at most one copy is under way and takes memory.
 * The copy is made beside the running tasks; it takes the old log's place when the store is free,
 * at once or when the task that is in the store leaves it.
 */
private[cleancut] object Compactor extends Logging {
  private val queue =
    Executors.newSingleThreadExecutor(DaemonThreads.named("cleancut-compaction"))

  /** Queues the store's log if it has become worth it. Called after each commit. */
  def consider(context: StoreContext, versions: StoreVersions): Unit =
    if (versions.mayCompact()) {
      queue.execute { () =>
        try versions.retainCurrent().foreach(compact(context, versions, _))
        catch { case NonFatal(e) => logWarning(s"Compaction of $context failed", e) }
        finally versions.compactionEnded()
      }
    }

  private def compact(context: StoreContext, versions: StoreVersions, log: StateLog): Unit =
    try {
      val start = context.clock.monotonicNs()
      val compaction = new Compaction(log, context.orderOf)
      val isCopied =
        try compaction.copyOldest(() => versions.isCurrent(log))
        catch {
          case e: Throwable =>
            compaction.abandon()
            throw e
        }
      if (isCopied) {
        versions.offer(log, compaction)
        val self = StoreUser(this, "the compaction")
        if (context.access.tryEnter(self)) context.access.leave(self)(versions.adoptCompaction())
        context.metrics.compacted(context.clock.monotonicNs() - start)
      } else compaction.abandon()
    } finally log.release()
}
