package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.Executors

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.StoreLock

import io.cleancut.base.DaemonThreads
import io.cleancut.engine.{Compaction, StateLog}

/**
 * Compacts logs, one at a time in each JVM, so that at most one copy is under way and takes memory.
 * The copy is made beside the running tasks, and follows what they do; it takes the old log's place
 * when the store is free and the copy has caught up: at once, when the task that is in the store
 * leaves it, or as soon as the copy is that far.
 */
private[cleancut] object Compactor extends Logging {
  private val queue =
    Executors.newSingleThreadExecutor(DaemonThreads.named("cleancut-compaction"))

  // Beside the copies, which may take seconds.
  private val followers =
    Executors.newSingleThreadExecutor(DaemonThreads.named("cleancut-follow"))

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
        versions.offer(log, compaction, () => follow(context, versions))
        follow(context, versions)
        context.metrics.compacted(context.clock.monotonicNs() - start)
      } else compaction.abandon()
    } finally log.release()

  /** Lets a copy catch up with its log, and adopts it if the store is free then. */
  def follow(context: StoreContext, versions: StoreVersions): Unit =
    if (versions.isFollowed.compareAndSet(false, true)) {
      followers.execute { () =>
        // What comes from here on asks again.
        versions.isFollowed.set(false)
        try {
          versions.followUp()
          if (context.storeLock.tryEnter(self)) context.storeLock.leave(self)(adopt(versions))
        } catch { case NonFatal(e) => logWarning(s"Compaction of $context failed", e) }
      }
    }

  private def adopt(versions: StoreVersions): Unit = {
    versions.adoptCompaction()
    ()
  }

  private def self = StoreLock.User(this, "the compaction")
}
