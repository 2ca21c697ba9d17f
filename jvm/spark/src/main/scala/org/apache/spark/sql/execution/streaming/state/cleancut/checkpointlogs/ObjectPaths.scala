package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.hadoop.fs.{FileStatus, Path}

import io.cleancut.error.Errors
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectPrefix}

/**
 * Maps Hadoop's paths to object names, and objects to Hadoop's file statuses.
 *
 * @param root
 *   path in the bucket
 */
final class ObjectPaths(root: Path) {

  /** @throws io.cleancut.error.CleancutException CLEANCUT_OBJECT_LOCATION_INVALID */
  def key(path: Path): ObjectKey = {
    val name = nameOf(path)
    ObjectKey.problem(name).foreach { problem =>
      throw Errors.objectLocationInvalid(path.toString, s"its path $problem")
    }
    ObjectKey(name)
  }

  /** The prefix of the objects below a path. */
  def prefix(path: Path): ObjectPrefix =
    if (nameOf(path).isEmpty) ObjectPrefix.All else ObjectPrefix(s"${key(path).name}/")

  private def nameOf(path: Path): String = {
    val uri = path.toUri
    // Spark passes the path that it received, or a relative one.
    val isHere = uri.getScheme == null || uri.getAuthority == root.toUri.getAuthority
    if (!isHere) throw Errors.objectLocationInvalid(path.toString, s"it is not in $root's bucket")
    uri.getPath.stripPrefix("/")
  }
}

object ObjectPaths {

  def file(path: Path, info: ObjectInfo): FileStatus =
    new FileStatus(info.sizeBytes, false, 1, info.sizeBytes, info.modifiedMs, path)

  def directory(path: Path): FileStatus = new FileStatus(0L, true, 0, 0L, 0L, path)
}
