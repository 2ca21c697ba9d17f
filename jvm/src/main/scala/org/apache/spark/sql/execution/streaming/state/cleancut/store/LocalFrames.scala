package org.apache.spark.sql.execution.streaming.state.cleancut.store

import java.io.{BufferedOutputStream, FileOutputStream, OutputStream}
import java.nio.file.{FileSystems, Files, Path => LocalPath, Paths, StandardCopyOption}
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
 * Makes the files of frames on a local disk as Spark's own file manager does it: under another
 * name, with Hadoop's permissions, renamed when all is written. But where Hadoop has no native code
 * it starts a process for each file and its checksums, which takes tens of milliseconds of every
 * store in every epoch. Here it takes a tenth of one. There is no file of checksums either: frames
 * hold their own, and Hadoop reads files that have none beside them.
 */
final private[cleancut] class LocalFrames(permissions: java.util.Set[PosixFilePermission]) {

  def create(path: Path): CheckpointFileManager.CancellableFSDataOutputStream = {
    val target = Paths.get(path.toUri.getPath)
    // The name that Spark's manager would give it, which no listing takes for a frame.
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
    new LocalFrames.Pending(path, target, pending, new BufferedOutputStream(out))
  }
}

private[cleancut] object LocalFrames {
  private val Root = new Path("/")

  /**
   * For a directory that Spark reaches through Hadoop's own local file system. Whoever has put
   * another manager or another file system in its place is asked.
   */
  def of(
      directory: Path,
      manager: CheckpointFileManager,
      hadoopConf: Configuration
  ): Option[LocalFrames] = {
    val uri = directory.makeQualified(FileSystem.getDefaultUri(hadoopConf), Root).toUri
    val isPlain = manager.getClass == classOf[FileContextBasedCheckpointFileManager] &&
      uri.getScheme == "file" &&
      FileSystems.getDefault.supportedFileAttributeViews.contains("posix") &&
      AbstractFileSystem.get(uri, hadoopConf).getClass == classOf[LocalFs]
    Option.when(isPlain) {
      new LocalFrames(
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

  final private class Pending(path: Path, target: LocalPath, pending: LocalPath, out: OutputStream)
      extends CheckpointFileManager.CancellableFSDataOutputStream(out) {
    private var isDone = false

    override def close(): Unit = if (!isDone) {
      isDone = true
      try {
        out.close()
        // A version's id is in its name, so that no other attempt makes a file of this name.
        if (Files.exists(target)) throw new FileAlreadyExistsException(s"$path exists already")
        Files.move(pending, target, StandardCopyOption.ATOMIC_MOVE)
        ()
      } catch {
        case e: Throwable =>
          discard()
          throw e
      }
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
