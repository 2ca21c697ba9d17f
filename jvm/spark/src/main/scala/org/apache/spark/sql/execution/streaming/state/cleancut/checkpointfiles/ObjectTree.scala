package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.OutputStream

import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, Path}

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  ObjectPaths,
  StatePartitions
}

import io.cleancut.base.Clock
import io.cleancut.error.Errors
import io.cleancut.objectstore.{Listed, ObjectStore}

/**
 * A bucket as the tree of files and directories that readers through Hadoop expect. A directory
 * exists while it contains files or directories that [[StatePartitions]] adds.
 *
 * @param root
 *   `s3://bucket/`
 */
final class ObjectTree(root: Path, store: ObjectStore) {
  private val paths = new ObjectPaths(root)

  /** None if the file does not exist. */
  def open(path: Path): Option[FSDataInputStream] =
    ObjectInput.open(store, paths.key(path)).map(new FSDataInputStream(_))

  /** A file that appears when the stream is closed; it must not exist. */
  def create(path: Path): OutputStream =
    new ObjectOutput(store, paths.key(path), mayReplace = false, path, Clock.System, _ => ())

  /** Deletes a file, or a directory with its contents; returns whether there was one. */
  def delete(path: Path): Boolean = {
    val key = paths.key(path)
    val below = store.list(paths.prefix(path)).map(_.key).toSeq
    val keys = if (below.isEmpty) store.head(key).map(_.key).toSeq else below
    if (keys.nonEmpty) store.delete(keys)
    keys.nonEmpty
  }

  def status(path: Path): Option[FileStatus] =
    if (path.isRoot) Some(ObjectPaths.directory(path))
    else
      store
        .head(paths.key(path))
        .map(ObjectPaths.file(path, _))
        .orElse(Option.when(isDirectory(path))(ObjectPaths.directory(path)))

  private def isDirectory(path: Path): Boolean =
    store.list(paths.prefix(path)).hasNext ||
      StatePartitions.below(store, paths.prefix(path.getParent)).contains(path.getName)

  /**
   * The children of a directory, sorted by name; empty if the directory does not exist.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_LOCATION_INVALID for a name that no Hadoop path can have: a reader must not
   *   miss a file silently
   */
  def children(directory: Path): Seq[FileStatus] = {
    val prefix = paths.prefix(directory)
    val files = Seq.newBuilder[FileStatus]
    val directories = Set.newBuilder[String]
    store.listLevel(prefix).foreach {
      case Listed.Here(info) =>
        files += ObjectPaths.file(child(directory, info.key.lastSegment), info)
      case Listed.Below(below)  => directories += below.lastSegment
      case Listed.Foreign(name) =>
        throw Errors.objectLocationInvalid(
          directory.toString,
          s"it contains '$name', which is not valid in a Hadoop path"
        )
    }
    directories ++= StatePartitions.below(store, prefix)
    val all = files.result() ++
      directories.result().map(name => ObjectPaths.directory(child(directory, name)))
    all.sortBy(_.getPath.getName)
  }

  /** `new Path(directory, name)` would parse the text before a colon as a scheme. */
  private def child(directory: Path, name: String): Path =
    new Path(directory, new Path(null, null, name))
}
