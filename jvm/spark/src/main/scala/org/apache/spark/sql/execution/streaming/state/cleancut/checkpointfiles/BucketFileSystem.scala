package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.FileNotFoundException
import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointCuts,
  SharedStores
}

import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.BucketPath

/**
 * Hadoop's read access to `s3://`.
 *
 * Spark's state reader requests the partitions of a checkpoint from Hadoop; all other accesses to a
 * checkpoint use `CleancutCheckpointFileManager`. `CleancutExtensions` sets the key of the scheme
 * if it is unset. The bucket is accessed with the settings of the session, as for checkpoints.
 *
 * Every write method throws CLEANCUT_FILE_SYSTEM_READ_ONLY.
 */
class BucketFileSystem extends FileSystem {
  private var uri: URI = _
  private[cleancut] var tree: ObjectTree = _

  // Statuses of a filtered listing, because filters, such as Spark's, may request each status
  // again.
  private val shown = ThreadLocal.withInitial[Map[Path, FileStatus]](() => Map.empty)

  override def getScheme: String = BucketPath.Scheme

  override def getUri: URI = uri

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID
   */
  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    val bucket = BucketPath.parse(s"$getScheme://${Option(name.getAuthority).mkString}").bucket
    uri = URI.create(s"$getScheme://$bucket")
    val store = SharedStores.ofBucket(bucket, CheckpointCuts.settingsIn(conf).objectStore)
    tree = new ObjectTree(getWorkingDirectory, store)
  }

  override def open(path: Path, bufferBytes: Int): FSDataInputStream =
    tree.open(qualified(path)).getOrElse(throw missing(path))

  override def getFileStatus(path: Path): FileStatus = {
    val whole = qualified(path)
    shown.get.get(whole).orElse(tree.status(whole)).getOrElse(throw missing(path))
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    val whole = qualified(path)
    val children = tree.children(whole)
    if (children.nonEmpty) children.toArray
    else {
      val self = getFileStatus(path)
      if (self.isDirectory) Array.empty else Array(self)
    }
  }

  override def listStatus(path: Path, filter: PathFilter): Array[FileStatus] = {
    val statuses = listStatus(path)
    val before = shown.get
    shown.set(statuses.map(status => status.getPath -> status).toMap)
    try statuses.filter(status => filter.accept(status.getPath))
    finally shown.set(before)
  }

  override def getWorkingDirectory: Path = new Path(s"$uri/")

  /** Relative paths begin at the bucket, regardless of the working directory. */
  override def setWorkingDirectory(directory: Path): Unit = ()

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = throw readOnly("create", path)

  override def append(path: Path, bufferBytes: Int, progress: Progressable): FSDataOutputStream =
    throw readOnly("append to", path)

  override def rename(from: Path, to: Path): Boolean = throw readOnly("rename", from)

  override def delete(path: Path, recursive: Boolean): Boolean = throw readOnly("delete", path)

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    throw readOnly("make the directory", path)

  override def truncate(path: Path, newBytes: Long): Boolean = throw readOnly("truncate", path)

  override def concat(path: Path, others: Array[Path]): Unit = throw readOnly("append to", path)

  private[cleancut] def qualified(path: Path): Path = {
    checkPath(path)
    path.makeQualified(uri, getWorkingDirectory)
  }

  private def missing(path: Path) = new FileNotFoundException(s"$path does not exist")

  private def readOnly(operation: String, path: Path): CleancutException =
    Errors.fileSystemReadOnly(operation, path.toString)
}
