package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.error.Errors
import io.cleancut.format.cut.Cut

/**
 * Spark's commit log as separate files, for a query whose epochs are committed by cuts. A cut
 * contains the entry of its epoch. The file is written after the cut, for other readers of the
 * checkpoint.
 *
 * @param directory
 *   `<checkpointLocation>/commits`
 */
final class CommitEntries(directory: Path, files: CheckpointFileManager) {
  import CommitEntries._

  /** The epoch of an entry's path. */
  def epochOf(path: Path): Option[Long] = CheckpointLogs.entryOf(directory, path)

  /**
   * Writes the entry of an existing cut. Another driver may have written it.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED if another entry exists
   */
  def write(epoch: Long, entry: String): Unit = {
    val path = new Path(directory, epoch.toString)
    if (!LogEntries.create(path, entry, files) && LogEntries.read(path, files) != entry) {
      val owner = s"a driver without cuts has written $path"
      throw Errors.fenced(directory.getParent.toString, epoch, owner)
    }
  }

  /**
   * Writes the entry of the cut from which a run continues, if the driver that wrote the cut died
   * before it did. Called when the run owns the query and Spark has not read the log.
   *
   * @return
   *   whether it has written an entry
   */
  def rollForward(cut: Cut): Boolean = {
    val isMissing = !files.exists(new Path(directory, cut.epoch.toString))
    if (isMissing) {
      files.mkdirs(directory)
      write(cut.epoch, cut.commit)
      logger.info(s"Epoch ${cut.epoch} was committed by its cut; wrote its entry to $directory")
    }
    isMissing
  }
}

object CommitEntries {
  private val logger = LoggerFactory.getLogger(classOf[CommitEntries])
}
