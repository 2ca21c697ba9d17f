package io.cleancut.files

import org.apache.hadoop.fs.{FileAlreadyExistsException, FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

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
 */
final private[cleancut] class OwnedLog(
    directory: Path,
    files: CheckpointFileManager,
    checkOwner: () => Unit,
    start: () => Unit
) extends DelegatedFiles(files) {
  private val isOfOffsets = directory.getName == CheckpointLogs.Offsets
  // Guarded by this.
  private var last = Option.empty[Long]

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val entry = owned(path)(files.createAtomic(path, overwriteIfPossible))
    new CheckpointFileManager.CancellableFSDataOutputStream(entry) {
      override def close(): Unit = {
        owned(path)(entry.close())
        CheckpointLogs.entryOf(directory, path).foreach(known)
      }
      override def cancel(): Unit = entry.cancel()
    }
  }

  override def exists(path: Path): Boolean = {
    if (path == directory) start()
    val isThere = super.exists(path)
    // Spark asks before it writes an entry, and stops without a reason if it is there.
    if (isThere && isUnknown(path)) {
      checkOwner()
      if (isOfOffsets) throw Errors.entryTaken(path.toString)
    }
    isThere
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    if (path == directory) start()
    val found = super.list(path, filter)
    if (path == directory) {
      known(found.flatMap(_.getPath.getName.toLongOption).maxOption.getOrElse(-1L))
    }
    found
  }

  /** Who owns the query and finds its entry there was overtaken by the run before it. */
  private def owned[A](path: Path)(write: => A): A =
    try write
    catch {
      case e: FileAlreadyExistsException =>
        checkOwner()
        throw (if (isOfOffsets) Errors.entryTaken(path.toString, e) else e)
    }

  private def known(entry: Long): Unit = synchronized {
    last = Some(Math.max(last.getOrElse(-1L), entry))
  }

  private def isUnknown(path: Path): Boolean = {
    val listed = synchronized(last)
    CheckpointLogs.entryOf(directory, path).exists(entry => listed.exists(_ < entry))
  }
}
