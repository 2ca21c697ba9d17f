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
import io.cleancut.cutstore.{CutArchive, CutParts}
import io.cleancut.cutstore.usage.Place
import io.cleancut.format.{FrameName, FramePlace}

/**
 * Fetches the snapshots of a query that another driver runs to the disks of this application's
 * executors. The first epoch after a takeover is scheduled where the snapshots of its stores are,
 * and reads them there. The pages of the last cut are then in the cache of the driver. For one
 * thread at a time.
 */
final class SnapshotPrefetch(session: SparkSession, location: String, archive: CutArchive) {
  import SnapshotPrefetch._

  private var last = Fetched(Nil, Set.empty, 0)

  /**
   * Fetches those that are not there yet. Without new snapshots or executors, nothing runs.
   *
   * @param epoch
   *   the last cut, if there is one
   * @return
   *   number of stores whose snapshots are there; 0 after a failure, since each snapshot is fetched
   *   when it is needed
   */
  def run(epoch: Option[Long]): Int = logged(location) {
    val bases = epoch.toSeq.flatMap(basesOf)
    val executors = executorsOf(session)
    if (last.bases != bases || last.executors != executors) {
      val stored = fetch(bases)
      stored.foreach { case (at, stores) => StoreHomes.prefetched(location, stores, at) }
      last = Fetched(bases, executors, stored.map(_._2.size).sum)
    }
    last.stores
  }

  private def fetch(bases: Seq[Base]): Seq[(Place, Seq[StoreId])] = {
    val partitions = bases.groupBy(_._1.store.partition).values.toSeq
    val homes = StoreHomes.of(location)
    // All stores of a partition are on one executor, where their tasks run.
    def preferred(bases: Seq[Base]) = bases.headOption
      .flatMap { case (name, _) => homes.get(name.store) }
      .map(at => TaskLocation(at.host, at.executor).toString)
      .toSeq
    // The tasks must not refer to this object.
    val at = location
    val conf = new StateStoreConf(session.sessionState.conf)
    val hadoopConf = new SerializableConfiguration(session.sessionState.newHadoopConf())
    ExecutorTasks.collect(
      ExecutorTasks.each(session.sparkContext, partitions, preferred).map { bases =>
        val settings = Settings.from(conf.sqlConfs)
        val root =
          SharedStores.rootOf(new Path(at), settings.objectStore, hadoopConf.value)
        (GroupedFrame.here, GroupedFiles.prefetch(root, bases, settings.localCacheBytes))
      }
    )
  }

  private def basesOf(epoch: Long): Seq[Base] = for {
    cut <- archive.cuts.open(epoch, CutParts.shared(archive)).toSeq
    store <- cut.whole.stores
    base <- store.base
  } yield base
}

object SnapshotPrefetch extends Logging {
  private type Base = (FrameName, FramePlace)

  /** Fetches the snapshots of the last cut once; 0 also if the epochs are not committed by cuts. */
  def run(session: SparkSession, location: String): Int = logged(location) {
    StoppedQueryCuts.parts(location, session.sessionState.newHadoopConf()).fold(0) {
      case (archive, _) =>
        new SnapshotPrefetch(session, location, archive).run(archive.cuts.epochs().lastOption)
    }
  }

  private def logged(location: String)(fetch: => Int): Int =
    try fetch
    catch {
      case NonFatal(e) =>
        logWarning(s"Snapshots of $location were not fetched ahead", e)
        0
    }

  private def executorsOf(session: SparkSession): Set[(String, Int)] =
    session.sparkContext.statusTracker.getExecutorInfos.map(e => e.host -> e.port).toSet

  /**
   * The result of a pass.
   *
   * @param executors
   *   host and port of each
   * @param stores
   *   number of stores whose snapshots are there
   */
  final private case class Fetched(
      bases: Seq[Base],
      executors: Set[(String, Int)],
      stores: Int
  )
}
