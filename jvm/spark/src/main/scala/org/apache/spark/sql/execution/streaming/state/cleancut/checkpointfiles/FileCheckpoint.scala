package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs._
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.{
  RunEnds,
  SparkCommitter
}
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.LocalDisk

import io.cleancut.base.Clock
import io.cleancut.conf.{Keys, Settings}
import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.Errors
import io.cleancut.objectstore.{Leftovers, WriteProbe}

/**
 * A checkpoint location on a Hadoop file system, one of its logs, or another path that Spark uses
 * there. Its epochs are committed by cuts if the key `cuts` is true or the checkpoint has cuts.
 */
object FileCheckpoint {

  def open(
      path: Path,
      hadoopConf: Configuration,
      onStart: FileManagers.OnStart
  ): CheckpointFileManager = {
    val files = quick(path, CheckpointCuts.sparkFiles(path, hadoopConf), hadoopConf)
    val ofPath = path.getName match {
      case CheckpointLogs.Commits =>
        startOfRun(path.getParent, hadoopConf)
          .fold[CheckpointFileManager](new PlainCommits(path, files))(_.ofCommits(path, files))
      case CheckpointLogs.Offsets =>
        startOfRun(path.getParent, hadoopConf).fold(files)(_.ofOffsets(files))
      case _ if FileManagers.isSourceLog(path, files) =>
        startOfRun(path.getParent.getParent, hadoopConf).fold(files)(_.ofSource(path, files))
      case _ => files
    }
    new DelegatedFiles(ofPath) {
      override def createCheckpointDirectory(): Path = start(files, hadoopConf, onStart)

      override def delete(deleted: Path): Unit = {
        if (deleted == path) RunEnds.beforeDeletion()
        super.delete(deleted)
      }
    }
  }

  /** Decided once before the run's first epoch, because tasks rely on it. */
  private def startOfRun(checkpoint: Path, hadoopConf: Configuration): Option[StartOfRun] =
    CheckpointCuts.onFilesIfUsed(checkpoint, hadoopConf).map { case (archive, logs) =>
      val committer = new SparkCommitter(checkpoint.toString, archive, logs)
      val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
      val prepared = prepare(checkpoint, archive, hadoopConf)(_)
      new StartOfRun(
        committer,
        offsets,
        CheckpointCuts.sparkFiles(offsets, hadoopConf),
        prepared,
        Clock.System
      )
    }

  /** Prepares the checkpoint before Spark reads the logs of a run that owns its query. */
  private[checkpointfiles] def prepare(
      checkpoint: Path,
      archive: CutArchive,
      hadoopConf: Configuration
  )(begun: Begun): Unit = begun.cut.foreach { cut =>
    val commits = new Path(checkpoint, CheckpointLogs.Commits)
    new CommitEntries(commits, CheckpointCuts.sparkFiles(commits, hadoopConf)).rollForward(cut)
    StartSweep.run(archive, begun)
  }

  /** Spark calls it once for each start of a query, before it reads files. */
  private def start(
      files: CheckpointFileManager,
      hadoopConf: Configuration,
      onStart: FileManagers.OnStart
  ): Path = {
    val checkpoint = files.createCheckpointDirectory()
    RecordedProvider.check(checkpoint, files, CheckpointCuts.settingsIn(hadoopConf))
    val last = if (isWithCuts(checkpoint, files, CheckpointCuts.settingsIn(hadoopConf))) {
      val (archive, _) = CheckpointCuts.onFiles(checkpoint, hadoopConf)
      new WriteProbe(archive.store, Clock.System).run()
      new Leftovers(archive.store, Clock.System).run()
      archive.cuts.last()
    } else None
    last.foreach { cut =>
      QueryMetadata.check(checkpoint, cut.head, files)
      LastOffsets.check(checkpoint, cut.head, files)
    }
    // Completes an interrupted rescale.
    onStart(checkpoint, CheckpointCuts.settingsIn(hadoopConf))
    if (last.isEmpty) UnfinishedOperations.checkWithoutCut(checkpoint, files)
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

  /** The same files, created without Hadoop's child processes. */
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
}
