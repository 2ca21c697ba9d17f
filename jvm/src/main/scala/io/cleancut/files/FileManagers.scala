package io.cleancut.files

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.cuts.SparkGate
import org.apache.spark.sql.execution.streaming.state.cleancut.offline.StartRescale

import io.cleancut.Clock
import io.cleancut.conf.{ObjectStoreSettings, Settings}
import io.cleancut.cuts.{CutArchive, CutRetention}
import io.cleancut.objects.{
  BucketPath,
  HadoopStore,
  Leftovers,
  ObjectStore,
  ObjectStores,
  RootedStore,
  WriteProbe
}

/** Chooses how the files at a path are reached. */
private[cleancut] object FileManagers {
  private val EpochsToKeepKey = "spark.sql.streaming.minBatchesToRetain"
  private val DefaultEpochsToKeep = 100

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID
   */
  def open(path: Path, hadoopConf: Configuration): CheckpointFileManager =
    if (SharedStores.isInBucket(path)) ofBucket(path, hadoopConf)
    else {
      SharedStores.refuseCopying(path, settingsIn(hadoopConf))
      FileCheckpoint.open(path, hadoopConf)
    }

  /** A checkpoint location, one of the logs in it, or anything else that Spark keeps there. */
  private def ofBucket(path: Path, hadoopConf: Configuration): CheckpointFileManager = {
    val allSettings = settingsIn(hadoopConf)
    val settings = allSettings.objectStore
    val store = SharedStores.around(BucketPath.parse(path.toString), settings)
    def keep = retention(hadoopConf)
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
        val (archive, logs) = cutsOf(path.getParent, settings, keep)
        val gate = new SparkGate(path.getParent.toString, archive, logs)
        new CommitsView(path, files, archive, gate)
      case _ =>
        def start(): Unit = {
          prepare(path, settings)
          RecordedProvider.check(
            path,
            new ObjectFileManager(path, store, () => (), Clock.System),
            allSettings
          )
          val (archive, _) = cutsOf(path, settings, keep)
          val files = new ObjectFileManager(path, store, () => (), Clock.System)
          val last = archive.last()
          last.foreach { cut =>
            QueryMetadata.check(path, cut.head, files)
            LastOffsets.check(path, cut.head, files)
          }
          StartRescale.run(path, allSettings)
          if (last.isEmpty) UnfinishedActs.checkWithoutCut(path, files)
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
    val (archive, logs) = cutsOf(checkpoint, settings, keep)
    val gate = new SparkGate(checkpoint.toString, archive, logs)
    val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
    val files = new ObjectFileManager(offsets, store, () => (), Clock.System)
    new StartOfRun(gate, offsets, files, StartSweep.run(archive, _), Clock.System)
  }

  /**
   * Whether a source has its log there, under its number or its name. A checkpoint location may
   * have the same parent directory as a log with a name.
   */
  def isSourceLog(path: Path, files: => CheckpointFileManager): Boolean =
    path.getParent != null && path.getParent.getName == CheckpointLogs.Sources && {
      path.getName.toLongOption.isDefined ||
      files.exists(new Path(path.getParent.getParent, CheckpointLogs.Metadata))
    }

  private[files] def cutsOf(
      checkpoint: Path,
      settings: ObjectStoreSettings,
      keep: CutRetention
  ): (CutArchive, CheckpointLogs) = {
    val path = BucketPath.parse(checkpoint.toString)
    val below = new RootedStore(SharedStores.ofCheckpoint(path, settings), path.prefix)
    val root = SharedStores.rootInBucket(checkpoint, settings).get
    (new CutArchive(root, Clock.System), new CheckpointLogs(checkpoint.toString, below, keep))
  }

  /** @throws io.cleancut.error.CleancutException CLEANCUT_CONF_INVALID */
  def settingsIn(hadoopConf: Configuration): Settings = HadoopStore.settingsIn(hadoopConf)

  def retention(hadoopConf: Configuration): CutRetention = CutRetention(
    hadoopConf.getInt(EpochsToKeepKey, DefaultEpochsToKeep),
    settingsIn(hadoopConf).retentionMs
  )

  private def prepare(path: Path, settings: ObjectStoreSettings): Unit =
    Using.resource(ObjectStores.open(path.toString, settings, new Configuration, Clock.System)) {
      store =>
        new WriteProbe(store, Clock.System).run()
        new Leftovers(store, Clock.System).run()
    }
}
