package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.fs.{FileAlreadyExistsException, FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  DelegatedFiles
}

import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.error.Errors

/**
 * A log of Spark's whose query may get another owner. An entry that is there where this run was to
 * write it is that owner's, and the error names it; or it is that of the run before, which may
 * still plan the first epoch of a query.
 *
 * @param checkOwner
 *   ends with CLEANCUT_FENCED if there is another owner
 * @param start
 *   called before Spark reads the log
 * @param starts
 *   of the run whose epochs begin with an entry here, if they do
 */
final class OwnedLog(
    directory: Path,
    files: CheckpointFileManager,
    checkOwner: () => Unit,
    start: () => Unit,
    starts: () => Option[EpochStarts] = () => None
) extends DelegatedFiles(files) {
  private val isOfOffsets = directory.getName == CheckpointLogs.Offsets
  // Guarded by this.
  private var last = Option.empty[Long]

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val turn = new Turn(starts())
    try {
      val entry = owned(path)(files.createAtomic(path, overwriteIfPossible))
      new CheckpointFileManager.CancellableFSDataOutputStream(entry) {
        override def close(): Unit = {
          owned(path)(entry.close())
          val written = CheckpointLogs.entryOf(directory, path)
          written.foreach(known)
          turn.end(written)
        }
        override def cancel(): Unit =
          try entry.cancel()
          finally turn.end(None)
      }
    } catch {
      case e: Throwable =>
        turn.end(None)
        throw e
    }
  }

  /** Of one entry, which ends once. */
  final private class Turn(of: Option[EpochStarts]) {
    private var isOver = false
    of.foreach(_.begin())

    def end(epoch: Option[Long]): Unit = if (!isOver) {
      isOver = true
      of.foreach(_.end(epoch))
    }
  }

  override def exists(path: Path): Boolean = {
    if (path == directory) start()
    val isThere = super.exists(path)
    // Spark asks before it writes an entry, and stops without a reason if it is there.
    if (isThere && isUnknown(path)) {
      checkOwner()
      if (isOfOffsets) throw Errors.offsetLogConflict(path.toString)
    }
    isThere
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    if (path == directory) start()
    val found = super.list(path, filter)
    if (path == directory) {
      val last = found.flatMap(_.getPath.getName.toLongOption).maxOption
      known(last.getOrElse(-1L))
      starts().foreach(_.looked(last))
    }
    found
  }

  /** Who owns the query and finds its entry there was overtaken by the run before it. */
  private def owned[A](path: Path)(write: => A): A =
    try write
    catch {
      case e: FileAlreadyExistsException =>
        checkOwner()
        throw (if (isOfOffsets) Errors.offsetLogConflict(path.toString, e) else e)
    }

  private def known(entry: Long): Unit = synchronized {
    last = Some(Math.max(last.getOrElse(-1L), entry))
  }

  private def isUnknown(path: Path): Boolean = {
    val listed = synchronized(last)
    CheckpointLogs.entryOf(directory, path).exists(entry => listed.exists(_ < entry))
  }
}
