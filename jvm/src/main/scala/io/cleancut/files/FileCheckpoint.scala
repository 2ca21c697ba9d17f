package io.cleancut.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path, UnsupportedFileSystemException}

import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}
import org.apache.spark.sql.execution.streaming.state.cleancut.cuts.SparkGate

import io.cleancut.Clock
import io.cleancut.conf.{Keys, Settings}
import io.cleancut.cuts.CutArchive
import io.cleancut.error.Errors
import io.cleancut.objects.{Leftovers, WriteProbe}

/**
 * A checkpoint location on a file system of Hadoop, one of the logs in it, or anything else that
 * Spark keeps there. Its epochs are committed by cuts if the key `cuts` says so or it has cuts.
 */
private[files] object FileCheckpoint {

  def open(path: Path, hadoopConf: Configuration): CheckpointFileManager = {
    val files = sparks(path, hadoopConf)
    val ofPath =
      if (path.getName == CheckpointLogs.Commits) commits(path, files, hadoopConf) else files
    new DelegatedFiles(ofPath) {
      override def createCheckpointDirectory(): Path = start(files, hadoopConf)
    }
  }

  /** Decided here, before the run's first epoch, and not again: tasks hold to it too. */
  private def commits(
      path: Path,
      files: CheckpointFileManager,
      hadoopConf: Configuration
  ): CheckpointFileManager = {
    val checkpoint = path.getParent
    val settings = FileManagers.settingsIn(hadoopConf)
    if (settings.cuts.getOrElse(StoredCuts.lastEpoch(checkpoint, files).isDefined)) {
      val (archive, logs) = cutsOf(checkpoint, hadoopConf)
      new GatedCommits(path, files, new SparkGate(checkpoint.toString, archive, logs))
    } else new UngatedCommits(path, files)
  }

  /** Spark calls it once for each start of a query, before it reads anything. */
  private def start(files: CheckpointFileManager, hadoopConf: Configuration): Path = {
    val checkpoint = files.createCheckpointDirectory()
    if (isWithCuts(checkpoint, files, FileManagers.settingsIn(hadoopConf))) {
      val (archive, logs) = cutsOf(checkpoint, hadoopConf)
      new WriteProbe(archive.store, Clock.System).run()
      new Leftovers(archive.store, Clock.System).run()
      val commits = new Path(checkpoint, CheckpointLogs.Commits)
      new CommitEntries(commits, sparks(commits, hadoopConf)).rollForward(archive)
      val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
      val ofOffsets = sparks(offsets, hadoopConf)
      archive.last().foreach { last =>
        QueryMetadata.check(checkpoint, last, files)
        DrainPlan.write(last, offsets, ofOffsets, Clock.System)
        StartSweep.run(archive, last.epoch, FileManagers.epochsToKeep(hadoopConf))
      }
      SparkGate.serve(checkpoint.toString, archive, logs)
    }
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
    val keep = FileManagers.epochsToKeep(hadoopConf)
    (new CutArchive(root, Clock.System), new CheckpointLogs(checkpoint.toString, below, keep))
  }

  /** What Spark takes by itself, in the order in which it tries. */
  private def sparks(path: Path, hadoopConf: Configuration): CheckpointFileManager =
    try new FileContextBasedCheckpointFileManager(path, hadoopConf)
    catch {
      case _: UnsupportedFileSystemException =>
        new FileSystemBasedCheckpointFileManager(path, hadoopConf)
    }
}
