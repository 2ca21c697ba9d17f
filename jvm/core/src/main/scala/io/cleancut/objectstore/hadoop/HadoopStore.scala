package io.cleancut.objectstore.hadoop

import java.io.{EOFException, FileNotFoundException, IOException, InterruptedIOException}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.security.AccessControlException

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.conf.{Keys, Settings}
import io.cleancut.error.Errors
import io.cleancut.objectstore._

/**
 * Objects as files of a directory in any Hadoop file system with a trusted rename.
 *
 * A file is written under a name in `.cleancut-pending` and renamed when it is complete
 * ([[Publication]]). A crash before the rename leaves the pending file, which is not listed and
 * never read; a crash after it leaves the object. Durability after a loss of power depends on the
 * file system, as for all files of Spark.
 *
 * Hadoop's clients retry requests, so there is no retry loop here. Tokens of writers are not
 * stored: after a refused rename in one `create` call, the object never belongs to that call,
 * because its pending file still exists.
 */
final class HadoopStore private[objectstore] (
    root: Path,
    files: FileSystem,
    publication: Publication,
    clock: Clock,
    isTakenOnTrust: Boolean
) extends ObjectStore {
  private val counter = new RequestCounter
  private val pendingDirectory = new Path(root, HadoopStore.PendingName)

  override def location: String = root.toString

  override def counts: RequestCounts = counter.now

  override def keepsTokens: Boolean = false

  override def probeRaces: Int =
    if (isTakenOnTrust) HadoopStore.RacesOnTrust else ObjectStore.ProbeRaces

  override def put(key: ObjectKey, body: Array[Byte]): Unit =
    request(RequestKind.Put, key.name) {
      publish(key, writePending(key, body))(publication.replaceFrom)
    }

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    request(RequestKind.Create, key.name) {
      createFrom(key, writePending(key, body))
    }

  private[objectstore] def createFrom(key: ObjectKey, pending: Path): CreateResult = {
    val isCreated =
      try publish(key, pending)(publication.createFrom)
      catch {
        // The name is checked first: a rename whose response was lost may take effect between two
        // checks, but not once another writer has the name.
        case _: IOException if files.exists(path(key)) =>
          // No other process removes the pending file. If it still exists, the file system has
          // refused to rename it onto an existing file, with an error that does not show the
          // reason.
          val isOwn = !files.exists(pending)
          if (!isOwn) deletePending(pending)
          isOwn
      }
    if (isCreated) CreateResult.Created else CreateResult.Exists(writer = None)
  }

  private def writePending(key: ObjectKey, body: Array[Byte]): Path = {
    val pending = pendingPath(key)
    Using.resource(files.create(pending, false))(_.write(body))
    counter.sentBytes(body.length.toLong)
    pending
  }

  /** A unique name; it contains the key, to identify files that a crash has left. */
  private[objectstore] def pendingPath(key: ObjectKey): Path =
    new Path(pendingDirectory, s"${StateVersion.newId(clock)}-${key.name.split('/').last}")

  private[objectstore] def createPending(path: Path): FSDataOutputStream = files.create(path, false)

  private[objectstore] def deletePending(path: Path): Unit = {
    files.delete(path, false)
    ()
  }

  @annotation.tailrec
  private def publish[A](key: ObjectKey, pending: Path, attempt: Int = 1)(
      step: (Path, Path) => A
  ): A = {
    val parent = path(key).getParent
    val done =
      try {
        files.mkdirs(parent)
        Some(step(pending, path(key)))
      } catch {
        // Another process that deletes the last file of a directory removes the directory, perhaps
        // just now.
        case _: IOException
            if attempt < HadoopStore.Attempts && files.exists(pending) &&
              !files.exists(path(key)) =>
          None
      }
    done match {
      case Some(result) => result
      case None         => publish(key, pending, attempt + 1)(step)
    }
  }

  override def get(key: ObjectKey): Option[Array[Byte]] =
    request(RequestKind.Get, key.name) {
      try {
        val bytes = Using.resource(files.open(path(key)))(_.readAllBytes())
        counter.receivedBytes(bytes.length.toLong)
        Some(bytes)
      } catch { case _: FileNotFoundException => None }
    }

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
    require(offset >= 0 && length > 0, s"not a range: $length bytes from $offset")
    request(RequestKind.GetRange, key.name) {
      try {
        val bytes = new Array[Byte](length)
        Using.resource(files.open(path(key)))(_.readFully(offset, bytes))
        counter.receivedBytes(length.toLong)
        RangeResult.Found(bytes)
      } catch {
        case _: FileNotFoundException => RangeResult.Missing
        case _: EOFException          =>
          status(key).fold[RangeResult](RangeResult.Missing)(s => RangeResult.TooShort(s.getLen))
      }
    }
  }

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] = {
    require(offset >= 0 && maxLength > 0, s"not a piece: $maxLength bytes from $offset")
    request(RequestKind.GetRange, key.name) {
      status(key).flatMap { file =>
        try {
          val length = Math.max(0L, Math.min(maxLength.toLong, file.getLen - offset))
          val bytes = new Array[Byte](length.toInt)
          Using.resource(files.open(path(key)))(_.readFully(offset, bytes))
          counter.receivedBytes(length)
          Some(Piece(offset, bytes, file.getLen))
        } catch { case _: FileNotFoundException => None }
      }
    }
  }

  override def head(key: ObjectKey): Option[ObjectInfo] =
    request(RequestKind.Head, key.name)(status(key).map(info(key, _)))

  private def status(key: ObjectKey): Option[FileStatus] =
    try Some(files.getFileStatus(path(key))).filter(_.isFile)
    catch { case _: FileNotFoundException => None }

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] =
    below(prefix.name.stripSuffix("/"))

  /** Objects below a directory; one directory is a page. */
  private def below(directory: String): Iterator[ObjectInfo] =
    children(directory).flatMap { case (name, status) =>
      if (!ObjectKey.isPlain(name)) Iterator.empty
      else if (status.isDirectory) below(name)
      else Iterator.single(info(ObjectKey(name), status))
    }

  /** Visits only directories that can contain names of the range. */
  override def listRange(range: ObjectRange): Iterator[ObjectInfo] = {
    def within(directory: String): Iterator[ObjectInfo] =
      children(directory).flatMap { case (name, status) =>
        if (!ObjectKey.isPlain(name)) Iterator.empty
        else if (status.isDirectory) if (range.overlaps(name)) within(name) else Iterator.empty
        else Iterator.single(info(ObjectKey(name), status)).filter(item => range.contains(item.key))
      }
    within(range.prefix.name.stripSuffix("/"))
  }

  override def listLevel(prefix: ObjectPrefix): Iterator[Listed] =
    children(prefix.name.stripSuffix("/")).flatMap {
      case (name, status) if ObjectKey.isPlain(name) =>
        if (status.isDirectory) Some(Listed.Below(ObjectPrefix(s"$name/")))
        else Some(Listed.Here(info(ObjectKey(name), status)))
      case (_, status) if status.getPath.getName.startsWith(".") => None
      case (name, _)                                             => Some(Listed.Foreign(name))
    }

  /** The children of a directory, with their names below the root. */
  private def children(directory: String): Iterator[(String, FileStatus)] = {
    val statuses = request(RequestKind.ListPage, s"$directory/") {
      try files.listStatus(if (directory.isEmpty) root else new Path(root, directory))
      catch { case _: FileNotFoundException => Array.empty[FileStatus] }
    }
    statuses.iterator.map { status =>
      val name = status.getPath.getName
      (if (directory.isEmpty) name else s"$directory/$name") -> status
    }
  }

  /** Also removes directories that become empty: a listing would visit each of them. */
  override def delete(keys: Seq[ObjectKey]): Unit = {
    keys.foreach { key =>
      request(RequestKind.Delete, key.name) {
        files.delete(path(key), false)
        ()
      }
    }
    keys.map(path(_).getParent).distinct.foreach(removeEmpty)
  }

  @annotation.tailrec
  private def removeEmpty(directory: Path): Unit =
    if (directory != root && publication.removeIfEmpty(directory)) removeEmpty(directory.getParent)

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload = {
    val sizes = PartSizes.of(partBytes)
    request(RequestKind.UploadStart, key.name) {
      val pending = pendingPath(key)
      new HadoopUpload(this, key, HadoopUpload.Pending(pending, createPending(pending)), sizes)
    }
  }

  /** A pending file does not contain its target directory. */
  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int = {
    val pending = request(RequestKind.ListUploads, HadoopStore.PendingName) {
      try files.listStatus(pendingDirectory)
      catch { case _: FileNotFoundException => Array.empty[FileStatus] }
    }
    val old = pending.filter(_.getModificationTime < beforeMs)
    old.foreach { status =>
      request(RequestKind.UploadAbort, status.getPath.getName)(deletePending(status.getPath))
    }
    old.length
  }

  /** Hadoop shares its file systems, so nothing is closed. */
  override def close(): Unit = ()

  private[objectstore] def sent(bytes: Int): Unit = counter.sentBytes(bytes.toLong)

  private[objectstore] def request[A](kind: RequestKind, name: String)(body: => A): A = {
    counter.sent(kind, isRetry = false)
    val startNs = clock.monotonicNs()
    try {
      val result = body
      if (kind.sendsBody) counter.tookToSend(clock.monotonicNs() - startNs)
      result
    } catch {
      case e: InterruptedIOException =>
        counter.failed(kind)
        throw new InterruptedException(s"interrupted in ${kind.name} of $name").initCause(e)
      case e: IOException =>
        counter.failed(kind)
        throw HadoopStore.failure(kind.name, s"$location/$name", e)
    }
  }

  private def path(key: ObjectKey): Path = new Path(root, key.name)

  private def info(key: ObjectKey, status: FileStatus): ObjectInfo =
    ObjectInfo(key, status.getLen, status.getModificationTime)
}

object HadoopStore {
  private val PendingName = ".cleancut-pending"

  /** Attempts to create a directory and a file in it while other processes remove the directory. */
  private val Attempts = 5

  /**
   * Number of races. A store that lets several writers win in a share p of all races passes with
   * probability (1 - p)^100.
   */
  val RacesOnTrust = 100

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_LOCATION_INVALID; CLEANCUT_OBJECT_STORE_UNSAFE if the file system is not
   *   known to decide between two writers, and is not trusted by setting
   */
  def open(location: Path, conf: Configuration, clock: Clock): HadoopStore =
    try {
      val files = unchecked(location.getFileSystem(conf))
      val root = files.makeQualified(location)
      val isOnTrust = isTakenOnTrust(files, root, conf)
      new HadoopStore(root, files, Publication.of(files, conf), clock, isOnTrust)
    } catch {
      case e: UnsupportedFileSystemException =>
        throw Errors.objectLocationInvalid(location.toString, e.getMessage)
      case e: IOException => throw failure("open", location.toString, e)
    }

  /**
   * Cleancut's settings that Spark has copied to a Hadoop configuration.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID
   */
  def settingsIn(conf: Configuration): Settings = {
    val ours = conf.getPropsWithPrefix(Keys.Prefix).asScala.toMap
    Settings.from(ours.map { case (name, value) => (Keys.Prefix + name) -> value })
  }

  /** For file systems that are not part of a configuration. */
  private[objectstore] def on(
      root: Path,
      files: FileSystem,
      publication: Publication,
      clock: Clock
  ): HadoopStore = new HadoopStore(root, files, publication, clock, isTakenOnTrust = false)

  /** Whether only a setting vouches for the rename of the file system. */
  private def isTakenOnTrust(files: FileSystem, root: Path, conf: Configuration): Boolean = {
    val scheme = files.getUri.getScheme
    if (AtomicRename.isByCopy(scheme))
      throw AtomicRename.refusal(root.toString, scheme)
    val doubt = AtomicRename.doubt(files, root, conf)
    val isVouchedFor = settingsIn(conf).objectStore.trustedScheme.contains(scheme)
    doubt.filterNot(_ => isVouchedFor).foreach { why =>
      throw Errors.objectStoreUnsafe(
        root.toString,
        why,
        "Use a directory on HDFS, Ozone, a local disk or an Azure account with hierarchical " +
          "namespace, or s3://. If you know that its rename is exclusive, set " +
          s"${Keys.TrustedScheme.name}=$scheme."
      )
    }
    doubt.isDefined
  }

  private def failure(operation: String, target: String, e: IOException) = e match {
    // Missing permissions, or a file instead of a directory: retries do not help.
    case _: AccessControlException | _: java.nio.file.AccessDeniedException |
        _: ParentNotDirectoryException | _: FileAlreadyExistsException =>
      Errors.objectStoreRefused(operation, target, e.toString, e)
    case _ => Errors.objectStoreUnavailable(operation, target, attempts = 1, waitedMs = 0, e)
  }

  /** Without checksum files: a link would not include them. */
  private def unchecked(files: FileSystem): FileSystem = files match {
    case checked: ChecksumFileSystem => checked.getRawFileSystem
    case other                       => other
  }
}
