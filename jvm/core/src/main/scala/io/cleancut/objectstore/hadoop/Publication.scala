package io.cleancut.objectstore.hadoop

import java.io.IOException
import java.nio.file.{Files, StandardCopyOption, FileAlreadyExistsException => NioExists}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/**
 * How a file that is complete under a pending name gets its own name, in one step that others see
 * whole or not at all.
 */
private[objectstore] trait Publication {

  /**
   * Whether the pending file has the name now; if not, another file had it, and it is unchanged.
   */
  def createFrom(pending: Path, target: Path): Boolean

  /** Gives the name to the pending file, whatever had it. */
  def replaceFrom(pending: Path, target: Path): Unit

  /**
   * Removes a directory that is empty and leaves any other, also one that a file gets meanwhile.
   * Whether it is gone.
   */
  def removeIfEmpty(directory: Path): Boolean
}

private[objectstore] object Publication {

  /**
   * @throws IllegalArgumentException
   *   no publication is known that this file system does in one step
   */
  def of(files: FileSystem, conf: Configuration): Publication = files match {
    case local: RawLocalFileSystem => new LinkPublication(local)
    case _ => new RenamePublication(FileContext.getFileContext(files.getUri, conf), files)
  }
}

/**
 * On a local disk. A rename of POSIX replaces its target, and Hadoop's refusal to do so is a look
 * before the rename, which two processes can pass together. A hard link is refused by the kernel.
 */
final private class LinkPublication(files: RawLocalFileSystem) extends Publication {

  override def createFrom(pending: Path, target: Path): Boolean = {
    val isCreated =
      try {
        Files.createLink(nio(target), nio(pending))
        true
      } catch { case _: NioExists => false }
    // A crash before this leaves a second name of the same bytes, which no listing shows.
    Files.deleteIfExists(nio(pending))
    isCreated
  }

  override def replaceFrom(pending: Path, target: Path): Unit = {
    Files.move(nio(pending), nio(target), StandardCopyOption.ATOMIC_MOVE)
    ()
  }

  /** Hadoop's own looks first and deletes then, with what has appeared in between. */
  override def removeIfEmpty(directory: Path): Boolean =
    try Files.deleteIfExists(nio(directory))
    catch { case _: IOException => false }

  private def nio(path: Path) = files.pathToFile(path).toPath
}

/**
 * On HDFS and whatever renames as it does: the name node refuses or replaces in one step. If the
 * answer is lost, Hadoop's client repeats the call and the name node recognises it.
 */
final private[objectstore] class RenamePublication(context: FileContext, files: FileSystem)
    extends Publication {

  override def createFrom(pending: Path, target: Path): Boolean =
    try {
      context.rename(pending, target, Options.Rename.NONE)
      true
    } catch {
      case _: FileAlreadyExistsException =>
        // Nobody else takes the pending file away: where it is gone, it has the name, by an earlier
        // try whose answer was lost.
        val isOwn = !context.util.exists(pending)
        if (!isOwn) context.delete(pending, false)
        isOwn
    }

  override def replaceFrom(pending: Path, target: Path): Unit =
    context.rename(pending, target, Options.Rename.OVERWRITE)

  override def removeIfEmpty(directory: Path): Boolean =
    try files.delete(directory, false)
    catch { case _: IOException => false }
}
