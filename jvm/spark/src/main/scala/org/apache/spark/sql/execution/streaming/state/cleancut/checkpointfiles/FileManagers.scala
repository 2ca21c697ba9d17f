package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs._
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.{
  DriverCuts,
  SparkCommitter
}

import io.cleancut.base.Clock
import io.cleancut.conf.{ObjectStoreSettings, Settings}
import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.objectstore.{BucketPath, ObjectStore}

/** Selects the file manager of a path. */
object FileManagers {

  /** Prepares a checkpoint before Spark reads it, with the settings of the session. */
  type OnStart = (Path, Settings) => Unit

  /**
   * @param onStart
   *   called once for each start of a query, before Spark reads its logs
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID
   */
  def open(path: Path, hadoopConf: Configuration, onStart: OnStart): CheckpointFileManager =
    if (SharedStores.isInBucket(path)) ofBucket(path, hadoopConf, onStart)
    else {
      SharedStores.refuseCopying(path, CheckpointCuts.settingsIn(hadoopConf))
      FileCheckpoint.open(path, hadoopConf, onStart)
    }

  /** A checkpoint location, one of its logs, or another path that Spark uses there. */
  private def ofBucket(
      path: Path,
      hadoopConf: Configuration,
      onStart: OnStart
  ): CheckpointFileManager = {
    val allSettings = CheckpointCuts.settingsIn(hadoopConf)
    val settings = allSettings.objectStore
    val store = SharedStores.around(BucketPath.parse(path.toString), settings)
    def keep = CheckpointCuts.retention(hadoopConf)
    path.getName match {
      case CheckpointLogs.Offsets =>
        val location = path.getParent.toString
        val log =
          new ObjectLog(path, store, Clock.System, CheckpointLogs.wroteOffsets(location, _, _))
        startOfRun(path.getParent, store, settings, keep).ofOffsets(log)
      case _ if isSourceLog(path, new ObjectFileManager(path, store, () => (), Clock.System)) =>
        val log = new ObjectLog(path, store, Clock.System, (_, _) => ())
        startOfRun(path.getParent.getParent, store, settings, keep).ofSource(path, log)
      case CheckpointLogs.Commits =>
        val files = new ObjectFileManager(path, store, () => (), Clock.System)
        val (archive, logs) = CheckpointCuts.inBucket(path.getParent, settings, keep)
        val committer = new SparkCommitter(path.getParent.toString, archive, logs)
        new CommitsView(path, files, archive, committer)
      case _ =>
        def start(): Unit = {
          SharedStores.probe(path, settings)
          RecordedProvider.check(
            path,
            new ObjectFileManager(path, store, () => (), Clock.System),
            allSettings
          )
          val (archive, _) = CheckpointCuts.inBucket(path, settings, keep)
          val files = new ObjectFileManager(path, store, () => (), Clock.System)
          val last = archive.cuts.last()
          last.foreach { cut =>
            QueryMetadata.check(path, cut.head, files)
            LastOffsets.check(path, cut.head, files)
          }
          onStart(path, allSettings)
          if (last.isEmpty) UnfinishedOperations.checkWithoutCut(path, files)
        }
        new ObjectFileManager(path, store, () => start(), Clock.System)
    }
  }

  private def startOfRun(
      checkpoint: Path,
      store: ObjectStore,
      settings: ObjectStoreSettings,
      keep: => CutRetention
  ): StartOfRun = {
    val (archive, logs) = CheckpointCuts.inBucket(checkpoint, settings, keep)
    val committer = new SparkCommitter(checkpoint.toString, archive, logs)
    val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
    val files = new ObjectFileManager(offsets, store, () => (), Clock.System)
    def prepare(begun: Begun): Unit = {
      StartSweep.run(archive, begun)
      LeftoverScan.start(store, checkpoint, DriverCuts.of(checkpoint.toString).isEmpty)
      ()
    }
    new StartOfRun(committer, offsets, files, prepare, Clock.System)
  }

  /**
   * Whether a source has its log at the path, under its index or name. A checkpoint location may
   * have the same parent directory as a log with a name.
   */
  def isSourceLog(path: Path, files: => CheckpointFileManager): Boolean =
    path.getParent != null && path.getParent.getName == CheckpointLogs.Sources && {
      path.getName.toLongOption.isDefined ||
      files.exists(new Path(path.getParent.getParent, CheckpointLogs.Metadata))
    }
}
