package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{BufferedOutputStream, FileOutputStream, OutputStream}
import java.nio.file.{
  FileAlreadyExistsException => NioExists,
  FileSystemException,
  FileSystems,
  Files,
  Path => LocalPath,
  Paths,
  StandardCopyOption
}
import java.nio.file.attribute.PosixFilePermission

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{AbstractFileSystem, FileAlreadyExistsException, FileSystem, Path}
import org.apache.hadoop.fs.local.LocalFs
import org.apache.hadoop.fs.permission.{FsAction, FsPermission}

import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager
}

import io.cleancut.base.{Clock, StateVersion}

/**
 * Writes files on a local disk as Spark's file manager does: under a temporary name, with Hadoop's
 * permissions, renamed when complete. But without native code, Hadoop starts a child process for
 * each file and its checksums, which takes tens of milliseconds for every store and for both logs
 * in every epoch. This class takes a tenth of a millisecond.
 */
final class LocalDisk private (
    permissions: java.util.Set[PosixFilePermission],
    ofDirectories: java.util.Set[PosixFilePermission]
) {

  /**
   * @param overwrites
   *   whether an existing file is replaced; otherwise closing the new one fails
   * @param hasSums
   *   whether to write Hadoop's checksum file; Hadoop can read files without one, and frames
   *   contain checksums
   */
  def create(
      path: Path,
      overwrites: Boolean,
      hasSums: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val target = Paths.get(path.toUri.getPath)
    // The temporary name of Spark's manager, which listings ignore.
    val pending =
      target.resolveSibling(s".${target.getFileName}.${StateVersion.newId(Clock.System)}.tmp")
    val out = new BufferedOutputStream(open(pending))
    val sums = Option.when(hasSums)(new SummedStream(out))
    new LocalDisk.Pending(path, target, pending, sums.getOrElse(out), overwrites)(
      sums.map(sum => () => write(LocalDisk.sumsOf(pending), sum.checksums()))
    )
  }

  /** Creates a directory and its parents unless they exist. */
  def mkdirs(path: Path): Unit = make(Paths.get(path.toUri.getPath))

  private def make(directory: LocalPath): Unit = if (!Files.isDirectory(directory)) {
    Option(directory.getParent).foreach(make)
    try {
      Files.createDirectory(directory)
      // Sets permissions explicitly, because the process umask may mask them.
      Files.setPosixFilePermissions(directory, ofDirectories)
      ()
    } catch {
      // Another thread or process created it.
      case _: NioExists if Files.isDirectory(directory) => ()
      case _: NioExists                                 =>
        throw new FileAlreadyExistsException(s"$directory is not a directory")
    }
  }

  private def open(file: LocalPath): OutputStream = {
    val out = new FileOutputStream(file.toFile)
    try Files.setPosixFilePermissions(file, permissions)
    catch {
      case NonFatal(e) =>
        out.close()
        Files.deleteIfExists(file)
        throw e
    }
    out
  }

  private def write(file: LocalPath, bytes: Array[Byte]): Unit = {
    val out = open(file)
    try out.write(bytes)
    finally out.close()
  }
}

object LocalDisk {
  private val Root = new Path("/")

  /**
   * A disk for a directory that Spark accesses through Hadoop's local file system; None if another
   * manager or file system is configured.
   */
  def of(
      directory: Path,
      manager: CheckpointFileManager,
      hadoopConf: Configuration
  ): Option[LocalDisk] = {
    val uri = directory.makeQualified(FileSystem.getDefaultUri(hadoopConf), Root).toUri
    val isPlain = manager.getClass == classOf[FileContextBasedCheckpointFileManager] &&
      uri.getScheme == "file" &&
      FileSystems.getDefault.supportedFileAttributeViews.contains("posix") &&
      AbstractFileSystem.get(uri, hadoopConf).getClass == classOf[LocalFs]
    Option.when(isPlain) {
      val mask = FsPermission.getUMask(hadoopConf)
      new LocalDisk(
        posix(FsPermission.getFileDefault.applyUMask(mask)),
        posix(FsPermission.getDirDefault.applyUMask(mask))
      )
    }
  }

  /** The path of a file's checksums in Hadoop. */
  private def sumsOf(file: LocalPath): LocalPath =
    file.resolveSibling(s".${file.getFileName}.crc")

  private def posix(permission: FsPermission): java.util.Set[PosixFilePermission] = {
    import PosixFilePermission._
    val granted = Seq(
      (permission.getUserAction, Seq(OWNER_READ, OWNER_WRITE, OWNER_EXECUTE)),
      (permission.getGroupAction, Seq(GROUP_READ, GROUP_WRITE, GROUP_EXECUTE)),
      (permission.getOtherAction, Seq(OTHERS_READ, OTHERS_WRITE, OTHERS_EXECUTE))
    ).flatMap { case (action, bits) =>
      val actions = Seq(FsAction.READ, FsAction.WRITE, FsAction.EXECUTE)
      actions.zip(bits).collect { case (wanted, bit) if action.implies(wanted) => bit }
    }
    granted.toSet.asJava
  }

  final private class Pending(
      path: Path,
      target: LocalPath,
      pending: LocalPath,
      out: OutputStream,
      overwrites: Boolean
  )(writeSums: Option[() => Unit])
      extends CheckpointFileManager.CancellableFSDataOutputStream(out) {
    private var isDone = false

    override def close(): Unit = if (!isDone) {
      isDone = true
      try {
        out.close()
        writeSums.foreach(_())
        // In the same order as Hadoop: the file exists before its checksums, so a crash in between
        // leaves a file without checksums. Checksums of a deleted or replaced file would belong to
        // another file.
        if (overwrites || !Files.exists(target)) Files.deleteIfExists(sumsOf(target))
        if (overwrites) {
          Files.move(pending, target, StandardCopyOption.ATOMIC_MOVE)
          ()
        } else publish()
        if (writeSums.nonEmpty) publishSums()
      } catch {
        case e: Throwable =>
          discard()
          throw e
      }
    }

    /**
     * Creates a link, so that one of several writers succeeds, which a rename does not guarantee.
     */
    private def publish(): Unit =
      try {
        Files.createLink(target, pending)
        delete(pending)
      } catch {
        case _: NioExists => throw new FileAlreadyExistsException(s"$path exists already")
        // Some disks do not support links. Hadoop checks and renames on all disks.
        case _: UnsupportedOperationException | _: FileSystemException =>
          if (Files.exists(target)) throw new FileAlreadyExistsException(s"$path exists already")
          Files.move(pending, target, StandardCopyOption.ATOMIC_MOVE)
          ()
      }

    /** The file exists now, and is complete without checksums. */
    private def publishSums(): Unit =
      try {
        Files.move(sumsOf(pending), sumsOf(target), StandardCopyOption.ATOMIC_MOVE)
        ()
      } catch { case NonFatal(_) => delete(sumsOf(pending)) }

    /** Discards the output. Has no effect after [[close]]. */
    override def cancel(): Unit = if (!isDone) {
      isDone = true
      try out.close()
      catch { case NonFatal(_) => () }
      discard()
    }

    private def discard(): Unit = {
      delete(pending)
      if (writeSums.nonEmpty) delete(sumsOf(pending))
    }

    private def delete(file: LocalPath): Unit =
      try {
        Files.deleteIfExists(file)
        ()
      } catch { case NonFatal(_) => () }
  }
}
