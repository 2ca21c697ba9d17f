package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.util.concurrent.{CompletableFuture, Executors}

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.ObjectPaths

import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.objectstore.{Leftovers, ObjectStore, RootedStore}

/**
 * Searches a checkpoint location in a bucket for the remains of killed processes at the start of a
 * run. The query does not wait for it, and it makes no further request once the run has ended.
 */
object LeftoverScan {
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-leftovers"))

  /**
   * @param bucket
   *   store of all objects in the bucket
   * @param isOver
   *   whether the run has ended
   */
  def start(
      bucket: ObjectStore,
      checkpoint: Path,
      isOver: => Boolean
  ): CompletableFuture[Void] = {
    val store = new RootedStore(bucket, new ObjectPaths(checkpoint).prefix(checkpoint).name)
    val scan: Runnable = () => new Leftovers(store, Clock.System).run(isOver)
    CompletableFuture.runAsync(scan, threads)
  }
}
