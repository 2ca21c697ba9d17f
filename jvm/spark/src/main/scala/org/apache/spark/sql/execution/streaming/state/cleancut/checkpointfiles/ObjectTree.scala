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
 * A bucket as the tree of files and directories that readers through Hadoop expect. A directory is
 * there as long as something lies below it, and so are those that [[StatePartitions]] adds.
 *
 * @param root
 *   `s3://bucket/`
 */
final class ObjectTree(root: Path, store: ObjectStore) {
  private val paths = new ObjectPaths(root)

  /** None where there is no such file. */
  def open(path: Path): Option[FSDataInputStream] =
    ObjectInput.open(store, paths.key(path)).map(new FSDataInputStream(_))

  /** A file that appears when the stream is closed; none of its name may be there. */
  def create(path: Path): OutputStream =
    new ObjectOutput(store, paths.key(path), mayReplace = false, path, Clock.System, _ => ())

  /** Removes a file, or a directory with all that lies below it; whether there was any. */
  def delete(path: Path): Boolean = {
    val key = paths.key(path)
    val below = store.list(paths.prefix(path)).map(_.key).toSeq
    val found = if (below.isEmpty) store.head(key).map(_.key).toSeq else below
    if (found.nonEmpty) store.delete(found)
    found.nonEmpty
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
   * What lies directly below a directory, sorted by name; nothing where there is no directory.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_LOCATION_INVALID for a name that no object of ours has: a reader that was not
   *   shown a file would take what is left for all there is
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
          s"it holds '$name', and no path of Hadoop can have that name"
        )
    }
    directories ++= StatePartitions.below(store, prefix)
    val found = files.result() ++
      directories.result().map(name => ObjectPaths.directory(child(directory, name)))
    found.sortBy(_.getPath.getName)
  }

  /** `new Path(directory, name)` would take what precedes a colon for a scheme. */
  private def child(directory: Path, name: String): Path =
    new Path(directory, new Path(null, null, name))
}
