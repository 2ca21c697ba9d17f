package io.cleancut.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.cleancut.Clock
import io.cleancut.cuts.{CutArchive, QueryCuts, SparkLogs}

/** What the store knows of a query that does not run here, or has not begun yet. */
object CutsAtRest {

  /** A coordinator without a run, if the epochs there are committed by cuts. Costs a listing. */
  def of(location: String, hadoopConf: Configuration): Option[QueryCuts] =
    parts(location, hadoopConf).map { case (archive, logs) =>
      new QueryCuts(archive, logs, host = "", Clock.System)
    }

  /** What a coordinator there works on. */
  def parts(location: String, hadoopConf: Configuration): Option[(CutArchive, SparkLogs)] = {
    val checkpoint = new Path(location)
    if (SharedStores.isInBucket(checkpoint)) {
      val settings = FileManagers.settingsIn(hadoopConf).objectStore
      Some(FileManagers.cutsOf(checkpoint, settings, FileManagers.retention(hadoopConf)))
    } else FileCheckpoint.cutsIn(checkpoint, hadoopConf)
  }
}
