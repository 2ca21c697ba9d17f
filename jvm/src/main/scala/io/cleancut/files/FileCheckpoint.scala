package io.cleancut.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path, UnsupportedFileSystemException}

import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}
import org.apache.spark.sql.execution.streaming.state.cleancut.cuts.{EndOfRuns, SparkGate}
import org.apache.spark.sql.execution.streaming.state.cleancut.offline.StartRescale

import io.cleancut.Clock
import io.cleancut.conf.{Keys, Settings}
import io.cleancut.cuts.{Begun, CutArchive}
import io.cleancut.error.Errors
import io.cleancut.objects.{Leftovers, WriteProbe}

/**
 * A checkpoint location on a file system of Hadoop, one of the logs in it, or anything else that
 * Spark keeps there. Its epochs are committed by cuts if the key `cuts` says so or it has cuts.
 */
private[files] object FileCheckpoint {

  def open(path: Path, hadoopConf: Configuration): CheckpointFileManager = {
    val files = quick(path, sparks(path, hadoopConf), hadoopConf)
    val ofPath = path.getName match {
      case CheckpointLogs.Commits =>
        startOfRun(path.getParent, hadoopConf)
          .fold[CheckpointFileManager](new UngatedCommits(path, files))(_.ofCommits(path, files))
      case CheckpointLogs.Offsets =>
        startOfRun(path.getParent, hadoopConf).fold(files)(_.ofOffsets(files))
      case _ if FileManagers.isSourceLog(path, files) =>
        startOfRun(path.getParent.getParent, hadoopConf).fold(files)(_.ofSource(path, files))
      case _ => files
    }
    new DelegatedFiles(ofPath) {
      override def createCheckpointDirectory(): Path = start(files, hadoopConf)

      override def delete(deleted: Path): Unit = {
        if (deleted == path) EndOfRuns.beforeDeletion()
        super.delete(deleted)
      }
    }
  }

  /** Decided here, before the run's first epoch, and not again: tasks hold to it too. */
  private def startOfRun(checkpoint: Path, hadoopConf: Configuration): Option[StartOfRun] =
    cutsIn(checkpoint, hadoopConf).map { case (archive, logs) =>
      val gate = new SparkGate(checkpoint.toString, archive, logs)
      val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
      val prepared = prepare(checkpoint, archive, hadoopConf)(_)
      new StartOfRun(gate, offsets, sparks(offsets, hadoopConf), prepared, Clock.System)
    }

  /** What else is to be there when Spark reads the logs of a run that owns its query. */
  private[files] def prepare(
      checkpoint: Path,
      archive: CutArchive,
      hadoopConf: Configuration
  )(begun: Begun): Unit = begun.cut.foreach { cut =>
    val commits = new Path(checkpoint, CheckpointLogs.Commits)
    new CommitEntries(commits, sparks(commits, hadoopConf)).rollForward(cut)
    StartSweep.run(archive, begun)
  }

  /** Where the epochs of a checkpoint are committed by cuts. */
  def cutsIn(checkpoint: Path, hadoopConf: Configuration): Option[(CutArchive, CheckpointLogs)] = {
    def hasCuts = StoredCuts.lastEpoch(checkpoint, sparks(checkpoint, hadoopConf)).isDefined
    Option.when(FileManagers.settingsIn(hadoopConf).cuts.getOrElse(hasCuts)) {
      cutsOf(checkpoint, hadoopConf)
    }
  }

  /** Spark calls it once for each start of a query, before it reads anything. */
  private def start(files: CheckpointFileManager, hadoopConf: Configuration): Path = {
    val checkpoint = files.createCheckpointDirectory()
    RecordedProvider.check(checkpoint, files, FileManagers.settingsIn(hadoopConf))
    val last = if (isWithCuts(checkpoint, files, FileManagers.settingsIn(hadoopConf))) {
      val (archive, _) = cutsOf(checkpoint, hadoopConf)
      new WriteProbe(archive.store, Clock.System).run()
      new Leftovers(archive.store, Clock.System).run()
      archive.last()
    } else None
    last.foreach { cut =>
      QueryMetadata.check(checkpoint, cut.head, files)
      LastOffsets.check(checkpoint, cut.head, files)
    }
    // It completes a rescale that was interrupted.
    StartRescale.run(checkpoint, FileManagers.settingsIn(hadoopConf))
    if (last.isEmpty) UnfinishedActs.checkWithoutCut(checkpoint, files)
    checkpoint
  }

  private def isWithCuts(
      checkpoint: Path,
      files: CheckpointFileManager,
      settings: Settings
  ): Boolean = settings.cuts.contains(true) || {
    val last = StoredCuts.lastEpoch(checkpoint, files)
    last.filter(_ => settings.cuts.contains(false)).foreach { epoch =>
      throw Errors.cutsRequired(
        checkpoint.toString,
        s"it has the cut of epoch $epoch",
        s"${Keys.Cuts.name} is false"
      )
    }
    last.isDefined
  }

  private def cutsOf(
      checkpoint: Path,
      hadoopConf: Configuration
  ): (CutArchive, CheckpointLogs) = {
    val below = SharedStores.onFiles(checkpoint, hadoopConf)
    val root = SharedStores.rootOnFiles(checkpoint, hadoopConf)
    val keep = FileManagers.retention(hadoopConf)
    (new CutArchive(root, Clock.System), new CheckpointLogs(checkpoint.toString, below, keep))
  }

  /** The same files, made without Hadoop's processes. */
  private def quick(
      path: Path,
      files: CheckpointFileManager,
      hadoopConf: Configuration
  ): CheckpointFileManager =
    LocalDisk.of(path, files, hadoopConf).fold(files) { disk =>
      new DelegatedFiles(files) {
        override def createAtomic(
            file: Path,
            overwriteIfPossible: Boolean
        ): CheckpointFileManager.CancellableFSDataOutputStream =
          disk.create(file, overwriteIfPossible, hasSums = true)

        override def mkdirs(directory: Path): Unit = disk.mkdirs(directory)
      }
    }

  /** What Spark takes by itself, in the order in which it tries. */
  private def sparks(path: Path, hadoopConf: Configuration): CheckpointFileManager =
    try new FileContextBasedCheckpointFileManager(path, hadoopConf)
    catch {
      case _: UnsupportedFileSystemException =>
        new FileSystemBasedCheckpointFileManager(path, hadoopConf)
    }
}
