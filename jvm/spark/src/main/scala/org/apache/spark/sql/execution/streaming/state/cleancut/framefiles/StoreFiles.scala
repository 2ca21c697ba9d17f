package org.apache.spark.sql.execution.streaming.state.cleancut.framefiles

import java.io.{FileNotFoundException, IOException}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  ChecksumException,
  FSDataInputStream,
  FSError,
  FileAlreadyExistsException,
  FileStatus,
  Path
}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  AtomicFile,
  StoredCuts
}
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.LocalDisk

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.Opened
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.{FormatNote, FrameKind, StoreCut, StoreLayout}
import io.cleancut.format.frame._
import io.cleancut.protocol.{Retention, StoreListing}

/**
 * The frames of one store on the file system of the checkpoint location, and the format marker at
 * its root. All accesses use Spark's `CheckpointFileManager` or have the same effect
 * ([[LocalDisk]]), so a frame appears completely or not at all.
 */
final private[cleancut] class StoreFiles(
    store: StoreId,
    checkpoint: Path,
    sparkDirectory: Path,
    hadoopConf: Configuration
) extends FrameFiles {
  private val root = new Path(checkpoint, StoreLayout.RootName)
  private val directory = new Path(root, StoreLayout.storeDirectory(store))
  private lazy val manager = CheckpointFileManager.create(directory, hadoopConf)
  private lazy val local = LocalDisk.of(directory, manager, hadoopConf)
  private var isDirectoryMade = false

  // Sizes of the files in the last listing.
  @volatile private var sizes = Map.empty[String, Long]

  override def location: String = directory.toString

  override def path(version: StateVersion, kind: FrameKind): String =
    frame(version, kind).toString

  override def open(version: Long, id: Option[String]): Opened = Opened(id, needsBase = false)

  override def accepted(version: Long, id: Option[String]): Option[String] = id

  /** Lists the store's directory; empty if it does not exist. */
  override def list(first: Long, last: Long, watch: LoadWatch): StoreListing = list()

  private def list(): StoreListing = {
    val statuses =
      try manager.list(directory)
      catch { case _: FileNotFoundException => Array.empty[FileStatus] }
    sizes = statuses.iterator.map(file => file.getPath.getName -> file.getLen).toMap
    StoreListing.fromNames(statuses.toSeq.map(_.getPath.getName))
  }

  override def openBase(version: StateVersion, watch: LoadWatch): Option[BaseFrame] = {
    val path = frame(version, FrameKind.Base)
    sizes.get(path.getName).filter(_ >= FrameFiles.minOpenedBytes).flatMap { sizeBytes =>
      val before = watch.enter(LoadPhase.Download)
      val bytes = new StoreFiles.FileBytes(() => open(path, version), sizeBytes)
      try {
        val request = FrameRequest(path.toString, store, version, FrameKind.Base)
        val opened = BaseFrame.open(request, bytes)
        if (opened.isEmpty) bytes.close()
        opened
      } catch {
        case e: Throwable =>
          bytes.close()
          throw e match {
            case e: ChecksumException => damaged(path.toString, version, e.getMessage)
            case other                => other
          }
      } finally {
        watch.enter(before)
        ()
      }
    }
  }

  /** A file that appears under its final name at the commit. */
  override def create(version: StateVersion, kind: FrameKind): PendingFrame =
    new PendingFile(() => {
      makeDirectory()
      val path = frame(version, kind)
      local.fold(manager.createAtomic(path, overwriteIfPossible = false))(
        _.create(path, overwrites = false, hasSums = false)
      )
    })

  override def read[A](version: StateVersion, kind: FrameKind, watch: LoadWatch)(
      read: (FrameReader, BlockScratch) => A
  ): A = {
    val request = FrameRequest(path(version, kind), store, version, kind)
    val scratch = BlockScratch.borrow()
    try {
      val before = watch.enter(LoadPhase.Download)
      val in = open(frame(version, kind), version)
      watch.enter(before)
      try read(new FrameReader(request, in, scratch, watch), scratch)
      catch {
        // The file system detected the corruption before our checksum.
        case e: ChecksumException => throw damaged(request.path, version, e.getMessage)
      } finally in.close()
    } finally scratch.giveBack()
  }

  /** The version that the frame applies to has a file of another attempt only. */
  override def brokenChain(
      target: StateVersion,
      parent: Parent,
      detail: String
  ): CleancutException = Errors.frameMissing(
    location,
    store.operator,
    store.partition,
    store.name,
    parent.version,
    s"version ${target.number} cannot be built: $detail"
  )

  /** Frames that reference others are in segments. */
  override def of(chain: StoreCut): FrameFiles =
    throw new IllegalStateException(s"$location has no frames of ${chain.store}")

  override def deleteBefore(keepFrom: Long, maxVersions: Int): Boolean = {
    val garbage = Retention.garbage(list(), keepFrom, maxVersions)
    garbage.foreach(g => manager.delete(new Path(directory, g.name)))
    garbage.map(_.number).distinct.size < maxVersions
  }

  /** Whether epochs of the query were committed by cuts. */
  def hasCuts: Boolean = StoredCuts.lastEpoch(checkpoint, manager).isDefined

  /**
   * Creates the directory in which Spark expects the store's files: Spark's state reader
   * (`format("statestore")`) uses the existing directories as the list of partitions.
   */
  def makeSparkDirectory(): Unit = manager.mkdirs(sparkDirectory)

  /**
   * Writes the format marker if there is none. If several stores try concurrently, one succeeds.
   */
  override def markRoot(): Unit = {
    makeSparkDirectory()
    val note = new Path(root, StoreLayout.FormatObject)
    if (!manager.exists(note)) {
      manager.mkdirs(root)
      try
        AtomicFile.write(manager, note, overwrites = false)(_.write(FormatNote(queryId()).toJson))
      catch { case _: FileAlreadyExistsException => () }
    }
  }

  /** Refuses a root with an unknown format, or without a format marker. */
  override def checkRoot(): Unit = {
    val note = new Path(root, StoreLayout.FormatObject)
    val bytes =
      try readAll(note)
      catch {
        case _: FileNotFoundException =>
          throw Errors.checkpointNotFound(checkpoint.toString, s"$note does not exist")
        case e: ChecksumException =>
          throw Errors.formatUnknown(note.toString, e.getMessage, FormatNote.Supported)
      }
    FormatNote.parse(bytes).left.foreach { format =>
      throw Errors.formatUnknown(note.toString, format, FormatNote.Supported)
    }
  }

  private def frame(version: StateVersion, kind: FrameKind): Path =
    new Path(directory, StoreLayout.objectName(version, kind))

  private def open(path: Path, version: StateVersion): FSDataInputStream =
    try manager.open(path)
    catch {
      case _: FileNotFoundException =>
        throw Errors.frameMissing(
          location,
          store.operator,
          store.partition,
          store.name,
          version.number,
          s"${path.getName} is missing"
        )
    }

  private def damaged(path: String, version: StateVersion, detail: String) =
    Errors.frameCorrupted(path, store.operator, store.partition, store.name, version.number, detail)

  private def makeDirectory(): Unit = if (!isDirectoryMade) {
    manager.mkdirs(directory)
    isDirectoryMade = true
  }

  /** Spark's ID of the query, from the metadata file next to our root. */
  private def queryId(): Option[String] =
    try FormatNote.queryIdOf(readAll(new Path(checkpoint, "metadata")))
    catch { case _: IOException => None }

  private def readAll(path: Path): Array[Byte] = {
    val in = manager.open(path)
    try in.readAllBytes()
    finally in.close()
  }
}

private[cleancut] object StoreFiles {

  /**
   * The checkpoint location of a store. Spark's root of all stores is `<checkpointLocation>/state`;
   * ours is next to it, not inside.
   */
  def checkpointOf(stateRoot: String): Path = {
    val root = new Path(stateRoot)
    if (root.getName == "state" && root.getParent != null) root.getParent else root
  }

  /**
   * A file with positioned reads. After a failed read the stream is closed, and the next read opens
   * another: on some file systems, an interrupt of a task closes it permanently.
   */
  final private class FileBytes(open: () => FSDataInputStream, val length: Long)
      extends FrameBytes {
    private var stream = Option.empty[FSDataInputStream]

    override def read(offset: Long, into: Array[Byte], count: Int): Unit = {
      val in = stream.getOrElse(open())
      stream = Some(in)
      try in.readFully(offset, into, 0, count)
      catch {
        case e: IOException =>
          close()
          throw e
        // Hadoop's local file system wraps such an exception.
        case e: FSError =>
          close()
          throw new IOException(e)
      }
    }

    override def close(): Unit = {
      stream.foreach(_.close())
      stream = None
    }
  }
}
