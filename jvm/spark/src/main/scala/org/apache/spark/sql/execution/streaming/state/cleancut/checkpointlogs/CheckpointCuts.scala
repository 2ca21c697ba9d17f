package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path, UnsupportedFileSystemException}

import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}

import io.cleancut.base.Clock
import io.cleancut.conf.{ObjectStoreSettings, Settings}
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.format.StoreLayout
import io.cleancut.objectstore.{BucketPath, ObjectStore, RootedStore}
import io.cleancut.objectstore.hadoop.HadoopStore

/** Opens the cuts and the logs of a checkpoint location, without a run. */
object CheckpointCuts {
  private val EpochsToKeepKey = "spark.sql.streaming.minBatchesToRetain"
  private val DefaultEpochsToKeep = 100

  /** The cuts and logs of a location on an object store. */
  def inBucket(
      checkpoint: Path,
      settings: ObjectStoreSettings,
      keep: CutRetention
  ): (CutArchive, CheckpointLogs) = {
    val path = BucketPath.parse(checkpoint.toString)
    val below = new RootedStore(SharedStores.ofCheckpoint(path, settings), path.prefix)
    val root = SharedStores.rootInBucket(checkpoint, settings).get
    (new CutArchive(root, Clock.System), new CheckpointLogs(checkpoint.toString, below, keep))
  }

  /** The cuts of a location, as a store of all objects in its bucket returns them. */
  def archiveIn(bucket: ObjectStore, checkpoint: Path): CutArchive = {
    val prefix = BucketPath.parse(checkpoint.toString).prefix
    new CutArchive(new RootedStore(bucket, s"$prefix${StoreLayout.RootName}/"), Clock.System)
  }

  /** The cuts and logs of a location on a Hadoop file system, whether or not it has cuts. */
  def onFiles(checkpoint: Path, hadoopConf: Configuration): (CutArchive, CheckpointLogs) = {
    val below = SharedStores.onFiles(checkpoint, hadoopConf)
    val root = SharedStores.rootOnFiles(checkpoint, hadoopConf)
    val keep = retention(hadoopConf)
    (new CutArchive(root, Clock.System), new CheckpointLogs(checkpoint.toString, below, keep))
  }

  /**
   * The cuts and logs of a location on a Hadoop file system, if its epochs are committed by cuts.
   */
  def onFilesIfUsed(
      checkpoint: Path,
      hadoopConf: Configuration
  ): Option[(CutArchive, CheckpointLogs)] = {
    def hasCuts = StoredCuts.lastEpoch(checkpoint, sparkFiles(checkpoint, hadoopConf)).isDefined
    Option.when(settingsIn(hadoopConf).cuts.getOrElse(hasCuts))(onFiles(checkpoint, hadoopConf))
  }

  /** @throws io.cleancut.error.CleancutException CLEANCUT_CONF_INVALID */
  def settingsIn(hadoopConf: Configuration): Settings = HadoopStore.settingsIn(hadoopConf)

  def retention(hadoopConf: Configuration): CutRetention = CutRetention(
    hadoopConf.getInt(EpochsToKeepKey, DefaultEpochsToKeep),
    settingsIn(hadoopConf).cutRetentionMs
  )

  /** Spark's default file manager, in the order in which Spark tries. */
  def sparkFiles(path: Path, hadoopConf: Configuration): CheckpointFileManager =
    try new FileContextBasedCheckpointFileManager(path, hadoopConf)
    catch {
      case _: UnsupportedFileSystemException =>
        new FileSystemBasedCheckpointFileManager(path, hadoopConf)
    }
}
