package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.TaskLocation
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  SharedStores,
  StoppedQueryCuts
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.{
  GroupedFiles,
  GroupedFrame,
  StoreHomes
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.ExecutorTasks
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.base.StoreId
import io.cleancut.conf.Settings
import io.cleancut.cutstore.CutParts
import io.cleancut.cutstore.usage.Place
import io.cleancut.format.{FrameName, FramePlace}

/**
 * Fetches the snapshots of a query that another driver runs to the disks of this application's
 * executors. The first epoch after a takeover is scheduled where the snapshots of its stores are,
 * and reads them there. The pages of the last cut are then in the cache of the driver.
 */
object SnapshotPrefetch extends Logging {

  /**
   * Fetches those that are not there yet.
   *
   * @return
   *   number of stores whose snapshots are there; 0 after a failure, since each snapshot is fetched
   *   when it is needed
   */
  def run(session: SparkSession, location: String): Int =
    try {
      val stored = fetch(session, location)
      stored.foreach { case (at, stores) => StoreHomes.prefetched(location, stores, at) }
      stored.map(_._2.size).sum
    } catch {
      case NonFatal(e) =>
        logWarning(s"Snapshots of $location were not fetched ahead", e)
        0
    }

  private def fetch(session: SparkSession, location: String): Seq[(Place, Seq[StoreId])] = {
    val partitions = basesOf(session, location).groupBy(_._1.store.partition).values.toSeq
    val homes = StoreHomes.of(location)
    // All stores of a partition are on one executor, where their tasks run.
    def preferred(bases: Seq[(FrameName, FramePlace)]) = bases.headOption
      .flatMap { case (name, _) => homes.get(name.store) }
      .map(at => TaskLocation(at.host, at.executor).toString)
      .toSeq
    val conf = new StateStoreConf(session.sessionState.conf)
    val hadoopConf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    ExecutorTasks.collect(
      ExecutorTasks.each(session.sparkContext, partitions, preferred).map { bases =>
        val settings = Settings.from(conf.sqlConfs)
        val root = SharedStores
          .rootInBucket(new Path(location), settings.objectStore)
          .getOrElse(SharedStores.rootOnFiles(new Path(location), hadoopConf.value))
        (GroupedFrame.here, GroupedFiles.prefetch(root, bases, settings.localCacheBytes))
      }
    )
  }

  /** The snapshots of the last cut. */
  private def basesOf(session: SparkSession, location: String): Seq[(FrameName, FramePlace)] =
    for {
      (archive, _) <-
        StoppedQueryCuts.parts(location, session.sessionState.newHadoopConf()).toSeq
      epoch <- archive.cuts.epochs().lastOption.toSeq
      cut <- archive.cuts.open(epoch, CutParts.shared(archive)).toSeq
      store <- cut.whole.stores
      base <- store.base
    } yield base
}
