package io.cleancut.objectstore

import java.io.{ByteArrayOutputStream, FileNotFoundException, IOException}
import java.net.URI

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

import io.cleancut.base.Clock
import io.cleancut.objectstore.hadoop.{HadoopStore, RenamePublication}
import io.cleancut.objectstore.s3.{RetryLoop, RetryPolicy, Verdict}

/**
 * A simulated Hadoop file system as one process sees it. Like Hadoop's clients it repeats
 * idempotent calls, and a rename whose response is lost fails.
 *
 * @param isAtomic
 *   whether a rename refuses an existing target in one step, as on HDFS; otherwise it checks first,
 *   then copies, and replaces the target
 */
final class SimulatedFiles(
    disk: SimulatedDisk,
    network: SimulatedNetwork,
    clock: Clock,
    isAtomic: Boolean
) extends FileSystem {
  import SimulatedFiles._

  private val loop = new RetryLoop(
    RetryPolicy(deadlineMs = 1000),
    clock,
    new RequestCounter,
    { case _: SimulatedFault => Verdict.Retry(0); case e => Verdict.Refuse(e.toString) }
  )
  setConf(NoConf)

  override def getUri: URI = Root.toUri

  override def open(path: Path, bufferBytes: Int): FSDataInputStream =
    new FSDataInputStream(new SimulatedInput(file(path, RequestKind.Get).body))

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    val body = new ByteArrayOutputStream {
      // Writes the opened file once. After a lost response, a repeated close does not create
      // another file under the name, which may have been renamed.
      private var isWritten = false

      override def close(): Unit = repeated(RequestKind.Put) {
        if (!isWritten) disk.write(nameOf(path), toByteArray, clock.wallMs())
        isWritten = true
      }
    }
    new FSDataOutputStream(body, null)
  }

  override def rename(from: Path, to: Path): Boolean =
    if (!isAtomic && repeated(RequestKind.Head)(disk.get(nameOf(to))).isDefined) false
    else {
      if (!isAtomic) (1 to CopiedPieces).foreach(_ => repeated(RequestKind.Get)(()))
      move(from, to, overwrite = !isAtomic)
      true
    }

  /** Renames in one step. */
  def move(from: Path, to: Path, overwrite: Boolean): Unit =
    once(RequestKind.Create) {
      if (!overwrite && disk.get(nameOf(to)).isDefined)
        throw new FileAlreadyExistsException(to.toString)
      if (!disk.move(nameOf(from), nameOf(to))) throw new FileNotFoundException(from.toString)
    }

  override def delete(path: Path, recursive: Boolean): Boolean =
    repeated(RequestKind.Delete) {
      val name = nameOf(path)
      if (disk.get(name).isDefined) {
        disk.delete(name)
        true
      } else if (disk.childrenOf(name).nonEmpty) throw new IOException(s"$name is not empty")
      else {
        disk.removeDirectory(name)
        true
      }
    }

  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    repeated(RequestKind.Put)(disk.makeDirectories(nameOf(path)))
    true
  }

  override def listStatus(path: Path): Array[FileStatus] =
    repeated(RequestKind.ListPage) {
      val names = disk.childrenOf(nameOf(path))
      if (names.isEmpty && !disk.isDirectory(nameOf(path)))
        throw new FileNotFoundException(path.toString)
      names.flatMap(statusOf).toArray
    }

  override def getFileStatus(path: Path): FileStatus =
    repeated(RequestKind.Head)(statusOf(nameOf(path)))
      .getOrElse(throw new FileNotFoundException(path.toString))

  private def statusOf(name: String): Option[FileStatus] =
    disk.get(name) match {
      case Some(stored) =>
        Some(new FileStatus(stored.body.length, false, 1, 1, stored.modifiedMs, pathOf(name)))
      case None =>
        Option.when(disk.isDirectory(name))(new FileStatus(0, true, 1, 1, 0, pathOf(name)))
    }

  private def file(path: Path, kind: RequestKind) =
    repeated(kind)(disk.get(nameOf(path)))
      .getOrElse(throw new FileNotFoundException(path.toString))

  private def repeated[A](kind: RequestKind)(effect: => A): A =
    loop(kind, "a file")(_ => network.request(kind, () => Try(effect))).get

  /** Sends a request without retries. A failure of a late effect is not reported. */
  private def once[A](kind: RequestKind)(effect: => A): A =
    network.request(kind, () => Try(effect)).get

  override def append(path: Path, bufferBytes: Int, progress: Progressable): FSDataOutputStream =
    throw new UnsupportedOperationException

  override def setWorkingDirectory(path: Path): Unit = ()

  override def getWorkingDirectory: Path = Root
}

object SimulatedFiles {
  private val NoConf = new Configuration(false)

  /** Number of requests of a rename that checks first, which is usually a slow copy. */
  private val CopiedPieces = 20

  val Root = new Path("sim:///")

  private def nameOf(path: Path): String = path.toUri.getPath.stripPrefix("/")

  private def pathOf(name: String): Path = new Path(Root, name)

  /** The Hadoop store on simulated files, with their atomic rename or Hadoop's default one. */
  def store(files: SimulatedFiles, isAtomic: Boolean, clock: Clock): HadoopStore = {
    val context =
      FileContext.getFileContext(if (isAtomic) new Deciding(files) else new Naive(files), NoConf)
    HadoopStore.on(Root, files, new RenamePublication(context, files), clock)
  }

  private class Naive(files: SimulatedFiles)
      extends DelegateToFileSystem(files.getUri, files, NoConf, files.getUri.getScheme, false) {
    override def getUriDefaultPort: Int = -1
    override def getServerDefaults(path: Path): FsServerDefaults =
      local.LocalConfigKeys.getServerDefaults
  }

  final private class Deciding(files: SimulatedFiles) extends Naive(files) {
    override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit =
      files.move(from, to, overwrite)
  }
}

/** A file in memory. */
final private class SimulatedInput(body: Array[Byte]) extends FSInputStream {
  private var at = 0

  override def read(): Int =
    if (at == body.length) -1
    else {
      at += 1
      body(at - 1) & 0xff
    }

  override def seek(position: Long): Unit = at = position.toInt
  override def getPos: Long = at.toLong
  override def seekToNewSource(position: Long): Boolean = false
}
