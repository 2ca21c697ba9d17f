package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.cutstore.CutArchive
import io.cleancut.error.Errors
import io.cleancut.format.cut.Cut

/** The end of Spark's offset log, which has an entry of each epoch before its cut is created. */
object LastOffsets {

  /**
   * Refuses a start after entries were deleted. Spark would plan an epoch again that has a cut.
   *
   * @param last
   *   the last cut, which was read before
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OFFSETS_DELETED
   */
  private[cleancut] def check(checkpoint: Path, last: Cut, files: CheckpointFileManager): Unit = {
    val lastEntry = epochIn(checkpoint, files)
    if (!lastEntry.exists(_ >= last.epoch)) {
      throw Errors.offsetsDeleted(checkpoint.toString, lastEntry, last.epoch)
    }
  }

  /** Whether the log has an entry of the epoch of the last cut, or a later one. */
  private[cleancut] def reaches(
      last: Cut,
      checkpoint: Path,
      files: CheckpointFileManager
  ): Boolean = epochIn(checkpoint, files).exists(_ >= last.epoch)

  /**
   * Writes deleted entries again from the cuts, including entries of the commit log if it has
   * separate files.
   */
  def restore(checkpoint: Path, cuts: CutArchive, files: CheckpointFileManager): Unit = {
    val last = epochIn(checkpoint, files).getOrElse(-1L)
    for (epoch <- cuts.cuts.epochs() if epoch > last; cut <- cuts.cuts.head(epoch)) {
      val log = new Path(checkpoint, CheckpointLogs.Offsets)
      files.mkdirs(log)
      LogEntries.create(new Path(log, epoch.toString), cut.offsets, files)
      if (!SharedStores.isInBucket(checkpoint)) {
        new CommitEntries(new Path(checkpoint, CheckpointLogs.Commits), files).rollForward(cut)
      }
    }
  }

  private def epochIn(checkpoint: Path, files: CheckpointFileManager): Option[Long] =
    try
      files
        .list(new Path(checkpoint, CheckpointLogs.Offsets))
        .flatMap(_.getPath.getName.toLongOption)
        .maxOption
    catch { case _: FileNotFoundException => None }
}
