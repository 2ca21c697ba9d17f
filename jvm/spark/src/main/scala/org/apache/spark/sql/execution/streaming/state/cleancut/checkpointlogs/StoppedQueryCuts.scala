package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.cleancut.base.Clock
import io.cleancut.coordinator.{QueryCoordinator, SparkLogs}
import io.cleancut.cutstore.CutArchive

/** Opens the cuts of a query that does not run here, or has not begun yet. */
object StoppedQueryCuts {

  /**
   * A coordinator without a run, if the epochs there are committed by cuts. Makes one list request.
   */
  def of(location: String, hadoopConf: Configuration): Option[QueryCoordinator] =
    parts(location, hadoopConf).map { case (archive, logs) =>
      new QueryCoordinator(archive, logs, host = "", Clock.System)
    }

  /** The archive and logs of such a coordinator. */
  def parts(location: String, hadoopConf: Configuration): Option[(CutArchive, SparkLogs)] = {
    val checkpoint = new Path(location)
    if (SharedStores.isInBucket(checkpoint)) {
      val settings = CheckpointCuts.settingsIn(hadoopConf).objectStore
      Some(CheckpointCuts.inBucket(checkpoint, settings, CheckpointCuts.retention(hadoopConf)))
    } else CheckpointCuts.onFilesIfUsed(checkpoint, hadoopConf)
  }
}
