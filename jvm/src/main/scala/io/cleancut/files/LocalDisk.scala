package io.cleancut.files

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

import io.cleancut.{Clock, StateVersion}

/**
 * Makes files on a local disk as Spark's own file manager does it: under another name, with
 * Hadoop's permissions, renamed when all is written. But where Hadoop has no native code it starts
 * a process for each file and its checksums, which takes tens of milliseconds of every store and of
 * both logs in every epoch. Here it takes a tenth of one. There is no file of checksums either:
 * Hadoop reads files that have none beside them, and frames hold their own.
 */
final class LocalDisk(permissions: java.util.Set[PosixFilePermission]) {

  /**
   * @param overwrites
   *   whether a file of that name is replaced; else closing the new one is refused
   */
  def create(
      path: Path,
      overwrites: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val target = Paths.get(path.toUri.getPath)
    // The name that Spark's manager would give it, which no listing takes for a file of its own.
    val pending =
      target.resolveSibling(s".${target.getFileName}.${StateVersion.newId(Clock.System)}.tmp")
    val out = new FileOutputStream(pending.toFile)
    try Files.setPosixFilePermissions(pending, permissions)
    catch {
      case NonFatal(e) =>
        out.close()
        Files.deleteIfExists(pending)
        throw e
    }
    new LocalDisk.Pending(path, target, pending, new BufferedOutputStream(out), overwrites)
  }
}

object LocalDisk {
  private val Root = new Path("/")

  /**
   * For a directory that Spark reaches through Hadoop's own local file system. Whoever has put
   * another manager or another file system in its place is asked.
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
      new LocalDisk(
        posix(FsPermission.getFileDefault.applyUMask(FsPermission.getUMask(hadoopConf)))
      )
    }
  }

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
  ) extends CheckpointFileManager.CancellableFSDataOutputStream(out) {
    private var isDone = false

    override def close(): Unit = if (!isDone) {
      isDone = true
      try {
        out.close()
        // Of a file that Hadoop made, whose checksums are not those of this one.
        if (overwrites || !Files.exists(target))
          Files.deleteIfExists(target.resolveSibling(s".${target.getFileName}.crc"))
        if (overwrites) {
          Files.move(pending, target, StandardCopyOption.ATOMIC_MOVE)
          ()
        } else publish()
      } catch {
        case e: Throwable =>
          discard()
          throw e
      }
    }

    /** Of several writers one wins, which a rename does not see to. */
    private def publish(): Unit =
      try {
        Files.createLink(target, pending)
        discard()
      } catch {
        case _: NioExists => throw new FileAlreadyExistsException(s"$path exists already")
        // Some disks have no links. Hadoop looks and renames on all of them.
        case _: UnsupportedOperationException | _: FileSystemException =>
          if (Files.exists(target)) throw new FileAlreadyExistsException(s"$path exists already")
          Files.move(pending, target, StandardCopyOption.ATOMIC_MOVE)
          ()
      }

    /** Leaves nothing behind. After [[close]] it does nothing. */
    override def cancel(): Unit = if (!isDone) {
      isDone = true
      try out.close()
      catch { case NonFatal(_) => () }
      discard()
    }

    private def discard(): Unit =
      try {
        Files.deleteIfExists(pending)
        ()
      } catch { case NonFatal(_) => () }
  }
}
