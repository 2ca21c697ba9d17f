package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.Executors

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.StoreLock

import io.cleancut.base.DaemonThreads
import io.cleancut.engine.{Compaction, StateLog}

/**
 * Compacts logs, one at a time in each JVM, so that at most one copy exists and takes memory. The
 * copy is made concurrently with running tasks, and follows their changes. It replaces the old log
 * when the store is free and the copy has caught up: immediately, when the task in the store
 * leaves, or as soon as the copy has caught up.
 */
private[cleancut] object Compactor extends Logging {
  private val queue =
    Executors.newSingleThreadExecutor(DaemonThreads.named("cleancut-compaction"))

  // Separate from the copies, which may take seconds.
  private val followers =
    Executors.newSingleThreadExecutor(DaemonThreads.named("cleancut-follow"))

  /** Queues the store's log if it is worth compacting. Called after each commit. */
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
        // Later records queue it again.
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
