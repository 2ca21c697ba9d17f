package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.{FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CommitEntries,
  DelegatedFiles,
  StoredCuts
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.error.Errors

/**
 * Spark's commit log on a Hadoop file system, for a query whose epochs are committed by cuts: the
 * commit of an entry writes its cut first. Otherwise the log is unchanged, so that all readers can
 * use it.
 */
final class CutCommits(
    directory: Path,
    files: CheckpointFileManager,
    committer: QueryCommitter
) extends DelegatedFiles(files) {
  private val entries = new CommitEntries(directory, files)

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = entries.epochOf(path) match {
    case None        => files.createAtomic(path, overwriteIfPossible)
    case Some(epoch) =>
      new Entry(bytes => {
        val entry = new String(bytes, UTF_8)
        committer.commit(epoch, entry)(entries.write(epoch, _))
        committer.pause()
      })
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    committer.begin()
    files.list(path, filter)
  }
}

/**
 * The commit log of a query without cuts. It fails if another driver has begun to commit by cuts
 * since, which the query would not notice otherwise.
 */
final private class PlainCommits(directory: Path, files: CheckpointFileManager)
    extends DelegatedFiles(files) {
  private val entries = new CommitEntries(directory, files)

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val checkpoint = directory.getParent
    for {
      epoch <- entries.epochOf(path)
      cut <- StoredCuts.lastEpoch(checkpoint, files)
    } throw Errors.fenced(checkpoint.toString, epoch, s"it has committed epoch $cut by a cut")
    files.createAtomic(path, overwriteIfPossible)
  }
}
