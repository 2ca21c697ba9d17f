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
 * Makes files on a local disk as Spark's own file manager does it: under another name, with
 * Hadoop's permissions, renamed when all is written. But where Hadoop has no native code it starts
 * a process for each file and its checksums, which takes tens of milliseconds of every store and of
 * both logs in every epoch. Here it takes a tenth of one.
 */
final class LocalDisk private (
    permissions: java.util.Set[PosixFilePermission],
    ofDirectories: java.util.Set[PosixFilePermission]
) {

  /**
   * @param overwrites
   *   whether a file of that name is replaced; else closing the new one is refused
   * @param hasSums
   *   whether Hadoop's file of checksums comes with it; Hadoop reads files that have none, and
   *   frames hold their own
   */
  def create(
      path: Path,
      overwrites: Boolean,
      hasSums: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val target = Paths.get(path.toUri.getPath)
    // The name that Spark's manager would give it, which no listing takes for a file of its own.
    val pending =
      target.resolveSibling(s".${target.getFileName}.${StateVersion.newId(Clock.System)}.tmp")
    val out = new BufferedOutputStream(open(pending))
    val sums = Option.when(hasSums)(new SummedStream(out))
    new LocalDisk.Pending(path, target, pending, sums.getOrElse(out), overwrites)(
      sums.map(of => () => write(LocalDisk.sumsOf(pending), of.checksums()))
    )
  }

  /** Makes a directory, and those that it lies in, unless it is there. */
  def mkdirs(path: Path): Unit = make(Paths.get(path.toUri.getPath))

  private def make(directory: LocalPath): Unit = if (!Files.isDirectory(directory)) {
    Option(directory.getParent).foreach(make)
    try {
      Files.createDirectory(directory)
      // As they are to be, whatever the process masks.
      Files.setPosixFilePermissions(directory, ofDirectories)
      ()
    } catch {
      // Another one was quicker.
      case _: NioExists if Files.isDirectory(directory) => ()
      case _: NioExists                                 =>
        throw new FileAlreadyExistsException(s"$directory is no directory")
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
      val mask = FsPermission.getUMask(hadoopConf)
      new LocalDisk(
        posix(FsPermission.getFileDefault.applyUMask(mask)),
        posix(FsPermission.getDirDefault.applyUMask(mask))
      )
    }
  }

  /** Where Hadoop keeps the checksums of a file. */
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
        // As Hadoop does it, a file is there before its checksums are: who dies between the two
        // leaves it without. What a file that is gone or replaced had would be those of another.
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

    /** Of several writers one wins, which a rename does not see to. */
    private def publish(): Unit =
      try {
        Files.createLink(target, pending)
        delete(pending)
      } catch {
        case _: NioExists => throw new FileAlreadyExistsException(s"$path exists already")
        // Some disks have no links. Hadoop looks and renames on all of them.
        case _: UnsupportedOperationException | _: FileSystemException =>
          if (Files.exists(target)) throw new FileAlreadyExistsException(s"$path exists already")
          Files.move(pending, target, StandardCopyOption.ATOMIC_MOVE)
          ()
      }

    /** The file is there by now, and is whole without them. */
    private def publishSums(): Unit =
      try {
        Files.move(sumsOf(pending), sumsOf(target), StandardCopyOption.ATOMIC_MOVE)
        ()
      } catch { case NonFatal(_) => delete(sumsOf(pending)) }

    /** Leaves nothing behind. After [[close]] it does nothing. */
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
