package io.cleancut.objectstore.hadoop

import java.io.IOException
import java.nio.file.{Files, StandardCopyOption, FileAlreadyExistsException => NioExists}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/** Gives a complete pending file its final name in one atomic step. */
private[objectstore] trait Publication {

  /** Whether the pending file has the name now; if not, another file had it and is unchanged. */
  def createFrom(pending: Path, target: Path): Boolean

  /** Gives the name to the pending file, replacing an existing file. */
  def replaceFrom(pending: Path, target: Path): Unit

  /**
   * Removes a directory if it is empty, also if a file is added concurrently. Returns whether it
   * was removed.
   */
  def removeIfEmpty(directory: Path): Boolean
}

private[objectstore] object Publication {

  /**
   * @throws IllegalArgumentException
   *   if no atomic step is known for this file system
   */
  def of(files: FileSystem, conf: Configuration): Publication = files match {
    case local: RawLocalFileSystem => new LinkPublication(local)
    case _ => new RenamePublication(FileContext.getFileContext(files.getUri, conf), files)
  }
}

/**
 * For local disks. A POSIX rename replaces its target, and Hadoop's check before the rename can
 * succeed in two processes. The kernel refuses a hard link to an existing name.
 */
final private class LinkPublication(files: RawLocalFileSystem) extends Publication {

  override def createFrom(pending: Path, target: Path): Boolean = {
    val isCreated =
      try {
        Files.createLink(nio(target), nio(pending))
        true
      } catch { case _: NioExists => false }
    // A crash before this leaves a second name of the same bytes, which is not listed.
    Files.deleteIfExists(nio(pending))
    isCreated
  }

  override def replaceFrom(pending: Path, target: Path): Unit = {
    Files.move(nio(pending), nio(target), StandardCopyOption.ATOMIC_MOVE)
    ()
  }

  /**
   * Hadoop's implementation checks first and deletes then, including files that were added in
   * between.
   */
  override def removeIfEmpty(directory: Path): Boolean =
    try Files.deleteIfExists(nio(directory))
    catch { case _: IOException => false }

  private def nio(path: Path) = files.pathToFile(path).toPath
}

/**
 * For HDFS and file systems with the same rename: the name node refuses or replaces in one step. If
 * the response is lost, Hadoop's client repeats the call and the name node recognizes it.
 */
final private[objectstore] class RenamePublication(context: FileContext, files: FileSystem)
    extends Publication {

  override def createFrom(pending: Path, target: Path): Boolean =
    try {
      context.rename(pending, target, Options.Rename.NONE)
      true
    } catch {
      case _: FileAlreadyExistsException =>
        // No other process removes the pending file: if it is missing, an earlier attempt with a
        // lost response has renamed it.
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
