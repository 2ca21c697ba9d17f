package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.{ByteArrayOutputStream, FileNotFoundException, FilterOutputStream, OutputStream}
import java.util.concurrent.{CompletableFuture, CompletionException}
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.hadoop.fs.{
  FSDataInputStream,
  FileAlreadyExistsException,
  FileStatus,
  Path,
  PathFilter
}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  DelegatedFiles
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.error.Errors

/**
 * A log of Spark whose query may get another owner. If an entry exists that this run was about to
 * write, it belongs to that owner, and the error names it; or it belongs to the previous run, which
 * may still plan the first epoch.
 *
 * @param checkOwner
 *   throws CLEANCUT_FENCED if there is another owner
 * @param start
 *   called before Spark reads the log
 * @param starts
 *   epoch starts of the run, if epochs begin with an entry of this log
 * @param plan
 *   writes an entry, possibly on another thread; without a number for other files of the log
 */
final class OwnedLog(
    directory: Path,
    files: CheckpointFileManager,
    checkOwner: () => Unit,
    start: () => Unit,
    starts: () => Option[EpochStarts] = () => None,
    plan: (Option[Long], () => Unit) => CompletableFuture[Unit] = (_, write) =>
      QueryCommitter.now(write())
) extends DelegatedFiles(files) {
  import OwnedLog._

  private val isOfOffsets = directory.getName == CheckpointLogs.Offsets
  // Guarded by this.
  private var last = Option.empty[Long]
  @volatile private var pending = Option.empty[Pending]

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val turn = new Turn(starts())
    try {
      val entry = owned(path)(files.createAtomic(path, overwriteIfPossible))
      val copy = new ByteArrayOutputStream
      new CheckpointFileManager.CancellableFSDataOutputStream(new CopiedOutput(entry, copy)) {
        override def close(): Unit = {
          val number = CheckpointLogs.entryOf(directory, path)
          val done = plan(number, () => finish(number))
          pending = Some(Pending(path, copy.toByteArray, done))
          number.foreach(known)
        }

        private def finish(number: Option[Long]): Unit =
          try {
            owned(path)(entry.close())
            turn.end(number)
          } finally turn.end(None)

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

  /** The start of one epoch, which ends once. */
  final private class Turn(starts: Option[EpochStarts]) {
    private val isOver = new AtomicBoolean
    starts.foreach(_.begin())

    def end(epoch: Option[Long]): Unit =
      if (isOver.compareAndSet(false, true)) starts.foreach(_.end(epoch))
  }

  override def open(path: Path): FSDataInputStream = beingWritten(path) match {
    case Some(entry) => new FSDataInputStream(new BytesInput(entry.bytes))
    case None        =>
      try super.open(path)
      catch {
        // Only the operation of a later owner deletes an entry that this run has listed.
        case e: FileNotFoundException =>
          if (!isUnknown(path)) checkOwner()
          throw e
      }
  }

  /**
   * The entry, if it is being written. Spark reads entries of sources while it plans their epoch.
   *
   * @throws Throwable
   *   the failure of the write; Spark would report a missing entry instead
   */
  private def beingWritten(path: Path): Option[Pending] = {
    val entry = pending.filter(_.path == path)
    entry.filter(_.done.isCompletedExceptionally).foreach { failed =>
      try failed.done.join()
      catch { case e: CompletionException => throw e.getCause }
    }
    entry.filterNot(_.done.isDone)
  }

  override def exists(path: Path): Boolean = {
    if (path == directory) start()
    val exists = beingWritten(path).isDefined || super.exists(path)
    // Spark checks for an entry before it writes it, and stops without a reason if it exists.
    if (exists && isUnknown(path)) {
      checkOwner()
      if (isOfOffsets) throw Errors.offsetLogConflict(path.toString)
    }
    exists
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    if (path == directory) start()
    val statuses = super.list(path, filter)
    if (path == directory) {
      val last = statuses.flatMap(_.getPath.getName.toLongOption).maxOption
      known(last.getOrElse(-1L))
      starts().foreach(_.recordListing(last))
    }
    statuses
  }

  /** An owner of the query that finds its entry written was overtaken by the previous run. */
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

private object OwnedLog {

  /** An entry that may be in the process of being written. */
  final private case class Pending(path: Path, bytes: Array[Byte], done: CompletableFuture[Unit])

  /** Copies what it writes. */
  final private class CopiedOutput(under: OutputStream, copy: OutputStream)
      extends FilterOutputStream(under) {
    override def write(byte: Int): Unit = {
      out.write(byte)
      copy.write(byte)
    }

    override def write(bytes: Array[Byte], from: Int, length: Int): Unit = {
      out.write(bytes, from, length)
      copy.write(bytes, from, length)
    }
  }
}
