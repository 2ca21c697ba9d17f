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
import io.cleancut.cuts.{Begun, CutArchive}
import io.cleancut.error.Errors
import io.cleancut.objects.{Leftovers, WriteProbe}

/**
 * A checkpoint location on a file system of Hadoop, one of the logs in it, or anything else that
 * Spark keeps there. Its epochs are committed by cuts if the key `cuts` says so or it has cuts.
 */
private[files] object FileCheckpoint {

  def open(path: Path, hadoopConf: Configuration): CheckpointFileManager = {
    val files = sparks(path, hadoopConf)
    val ofPath = path.getName match {
      case CheckpointLogs.Commits              => commits(path, files, hadoopConf)
      case CheckpointLogs.Offsets              => offsets(path, files, hadoopConf)
      case _ if FileManagers.isSourceLog(path) => source(path, files, hadoopConf)
      case _                                   => files
    }
    new DelegatedFiles(ofPath) {
      override def createCheckpointDirectory(): Path = start(files, hadoopConf)
    }
  }

  private def offsets(
      path: Path,
      files: CheckpointFileManager,
      hadoopConf: Configuration
  ): CheckpointFileManager = {
    val checkpoint = path.getParent
    if (!isByCuts(checkpoint, files, hadoopConf)) files
    else {
      val start = startOfRun(checkpoint, hadoopConf)
      new OwnedLog(path, files, () => start.checkOwner(), () => start.run())
    }
  }

  private def source(
      path: Path,
      files: CheckpointFileManager,
      hadoopConf: Configuration
  ): CheckpointFileManager = {
    val checkpoint = path.getParent.getParent
    if (!isByCuts(checkpoint, sparks(checkpoint, hadoopConf), hadoopConf)) files
    else {
      val start = startOfRun(checkpoint, hadoopConf)
      new OwnedLog(path, files, () => start.checkOwner(), () => start.ofSource(path))
    }
  }

  private def startOfRun(checkpoint: Path, hadoopConf: Configuration): StartOfRun = {
    val (archive, logs) = cutsOf(checkpoint, hadoopConf)
    val gate = new SparkGate(checkpoint.toString, archive, logs)
    val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
    val commits = new Path(checkpoint, CheckpointLogs.Commits)
    def prepare(begun: Begun): Unit = begun.cut.foreach { cut =>
      new CommitEntries(commits, sparks(commits, hadoopConf)).rollForward(cut)
      StartSweep.run(archive, cut.epoch, FileManagers.epochsToKeep(hadoopConf))
    }
    new StartOfRun(gate, offsets, sparks(offsets, hadoopConf), prepare, Clock.System)
  }

  /** Where the epochs of a checkpoint are committed by cuts. */
  def cutsIn(checkpoint: Path, hadoopConf: Configuration): Option[(CutArchive, CheckpointLogs)] =
    Option.when(isByCuts(checkpoint, sparks(checkpoint, hadoopConf), hadoopConf)) {
      cutsOf(checkpoint, hadoopConf)
    }

  private def isByCuts(
      checkpoint: Path,
      files: CheckpointFileManager,
      hadoopConf: Configuration
  ): Boolean = {
    val asked = FileManagers.settingsIn(hadoopConf).cuts
    asked.getOrElse(StoredCuts.lastEpoch(checkpoint, files).isDefined)
  }

  /** Decided here, before the run's first epoch, and not again: tasks hold to it too. */
  private def commits(
      path: Path,
      files: CheckpointFileManager,
      hadoopConf: Configuration
  ): CheckpointFileManager = {
    val checkpoint = path.getParent
    if (isByCuts(checkpoint, files, hadoopConf)) {
      val (archive, logs) = cutsOf(checkpoint, hadoopConf)
      val gate = new SparkGate(checkpoint.toString, archive, logs)
      val entries = new GatedCommits(path, files, gate)
      new OwnedLog(path, entries, () => gate.checkOwner(), () => ())
    } else new UngatedCommits(path, files)
  }

  /** Spark calls it once for each start of a query, before it reads anything. */
  private def start(files: CheckpointFileManager, hadoopConf: Configuration): Path = {
    val checkpoint = files.createCheckpointDirectory()
    RecordedProvider.check(checkpoint, files, FileManagers.settingsIn(hadoopConf))
    if (isWithCuts(checkpoint, files, FileManagers.settingsIn(hadoopConf))) {
      val (archive, _) = cutsOf(checkpoint, hadoopConf)
      new WriteProbe(archive.store, Clock.System).run()
      new Leftovers(archive.store, Clock.System).run()
      val commits = new Path(checkpoint, CheckpointLogs.Commits)
      new CommitEntries(commits, sparks(commits, hadoopConf)).rollForward(archive)
      archive.last().foreach(QueryMetadata.check(checkpoint, _, files))
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
