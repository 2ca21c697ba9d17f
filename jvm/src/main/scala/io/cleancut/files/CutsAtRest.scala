package io.cleancut.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.cleancut.Clock
import io.cleancut.cuts.QueryCuts

/** What the store knows of a query that does not run here, or has not begun yet. */
object CutsAtRest {

  /** A coordinator without a run, if the epochs there are committed by cuts. Costs a listing. */
  def of(location: String, hadoopConf: Configuration): Option[QueryCuts] = {
    val checkpoint = new Path(location)
    val found =
      if (SharedStores.isInBucket(checkpoint)) {
        val settings = FileManagers.settingsIn(hadoopConf).objectStore
        Some(FileManagers.cutsOf(checkpoint, settings, FileManagers.epochsToKeep(hadoopConf)))
      } else FileCheckpoint.cutsIn(checkpoint, hadoopConf)
    found.map { case (archive, logs) => new QueryCuts(archive, logs, host = "", Clock.System) }
  }
}
