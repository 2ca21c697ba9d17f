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
    val settings = CheckpointCuts.settingsIn(hadoopConf).objectStore
    val bucket = SharedStores.around(BucketPath.parse(path.toString), settings)
    val files = filesOf(path, StartReads.viewAround(bucket, path))
    def keep = CheckpointCuts.retention(hadoopConf)
    path.getName match {
      case CheckpointLogs.Offsets =>
        val location = path.getParent.toString
        val store = StartReads.view(bucket, path.getParent)
        val log =
          new ObjectLog(path, store, Clock.System, CheckpointLogs.wroteOffsets(location, _, _))
        startOfRun(path.getParent, bucket, settings, keep).ofOffsets(log)
      case _ if isSourceLog(path, files) =>
        val checkpoint = path.getParent.getParent
        val store = StartReads.view(bucket, checkpoint)
        val log = new ObjectLog(path, store, Clock.System, (_, _) => ())
        startOfRun(checkpoint, bucket, settings, keep).ofSource(path, log)
      case CheckpointLogs.Commits =>
        val checkpoint = path.getParent
        val entries = filesOf(path, StartReads.view(bucket, checkpoint))
        val (archive, logs) = CheckpointCuts.inBucket(checkpoint, settings, keep)
        val committer = new SparkCommitter(checkpoint.toString, archive, logs)
        new CommitsView(path, entries, archive, committer, () => StartReads.end(checkpoint))
      case _ =>
        val store = StartReads.viewAround(bucket, path)
        val start = () => check(path, CheckpointCuts.settingsIn(hadoopConf), onStart)
        new ObjectFileManager(path, store, start, Clock.System)
    }
  }

  /** Checks a checkpoint before a query starts. */
  private def check(
      checkpoint: Path,
      settings: Settings,
      onStart: OnStart
  ): Unit = {
    SharedStores.probe(checkpoint, settings.objectStore)
    // Before Spark opens its logs, whose requests then count for this checkpoint.
    val bucket =
      SharedStores.ofCheckpoint(BucketPath.parse(checkpoint.toString), settings.objectStore)
    val ahead = StartReads.beforeRun(bucket, checkpoint)
    val (early, files) = (filesOf(checkpoint, ahead), filesOf(checkpoint, bucket))
    RecordedProvider.check(checkpoint, early, settings)
    val last = StartReads.lastCut(CheckpointCuts.archiveIn(ahead, checkpoint))
    last.foreach { cut =>
      QueryMetadata.check(checkpoint, cut.head, early)
      // The log was listed concurrently with the cuts, and a running query may have committed.
      if (!LastOffsets.reaches(cut.head, checkpoint, early))
        LastOffsets.check(checkpoint, cut.head, files)
    }
    onStart(checkpoint, settings)
    if (last.isEmpty) UnfinishedOperations.checkWithoutCut(checkpoint, files)
  }

  private def filesOf(path: Path, store: ObjectStore): ObjectFileManager =
    new ObjectFileManager(path, store, () => (), Clock.System)

  private def startOfRun(
      checkpoint: Path,
      bucket: ObjectStore,
      settings: ObjectStoreSettings,
      keep: => CutRetention
  ): StartOfRun = {
    val (archive, logs) = CheckpointCuts.inBucket(checkpoint, settings, keep)
    val committer = new SparkCommitter(checkpoint.toString, archive, logs)
    val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
    def prepare(begun: Begun): Unit = {
      StartSweep.run(archive, begun)
      LeftoverScan.start(bucket, checkpoint, DriverCuts.of(checkpoint.toString).isEmpty)
      ()
    }
    new StartOfRun(
      committer,
      offsets,
      filesOf(offsets, StartReads.view(bucket, checkpoint)),
      prepare,
      Clock.System,
      () => StartReads.fill(bucket, checkpoint)
    )
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
