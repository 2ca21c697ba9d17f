package io.cleancut.files

import java.io.FileNotFoundException

import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.Clock
import io.cleancut.error.Errors
import io.cleancut.objects._

/**
 * The files of a checkpoint as the objects of a bucket.
 *
 * A file appears whole with the request that writes it, so nothing is renamed. There are no
 * directories: one exists as long as an object lies below it, making one does nothing, and listing
 * one that is not there finds nothing.
 *
 * @param root
 *   what this manager was made for, in the bucket of `store`
 * @param probe
 *   refuses a store that would not keep what it was given
 */
private[cleancut] class ObjectFileManager(
    root: Path,
    store: ObjectStore,
    probe: () => Unit,
    clock: Clock
) extends CheckpointFileManager {

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream =
    new ObjectFile(
      new ObjectOutput(store, key(path), overwriteIfPossible, path, clock, written(path, _))
    )

  /** Called when a file that is small enough for one request has appeared. */
  protected def written(path: Path, bytes: Array[Byte]): Unit = ()

  override def open(path: Path): FSDataInputStream =
    new FSDataInputStream(ObjectInput.open(store, key(path)).getOrElse {
      throw new FileNotFoundException(s"$path does not exist")
    })

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val prefix = prefixOf(path)
    val (deep, flat) = store
      .list(prefix)
      .map(info => info.key.name.substring(prefix.name.length) -> info)
      .partition(_._1.contains('/'))
    val files = flat.map { case (name, info) => file(new Path(path, name), info) }
    val directories = deep.map(_._1.takeWhile(_ != '/')).toSet.map { (name: String) =>
      new FileStatus(0L, true, 0, 0L, 0L, new Path(path, name))
    }
    (files ++ directories).filter(status => filter.accept(status.getPath)).toArray
  }

  override def mkdirs(path: Path): Unit = ()

  override def exists(path: Path): Boolean =
    store.head(key(path)).isDefined || store.list(prefixOf(path)).hasNext

  /**
   * Deletes an object; of directories only the one that this manager was made for, with all that is
   * below it. Spark deletes no others, and to look for them would cost more than to delete.
   */
  override def delete(path: Path): Unit = {
    val below = if (path == root) store.list(prefixOf(path)).map(_.key).toSeq else Nil
    store.delete(key(path) +: below)
  }

  override def isLocal: Boolean = false

  /** Also finds out, once for each start of a query, whether the store will do. */
  override def createCheckpointDirectory(): Path = {
    probe()
    root
  }

  private def file(path: Path, info: ObjectInfo) =
    new FileStatus(info.sizeBytes, false, 1, info.sizeBytes, info.modifiedMs, path)

  private def key(path: Path): ObjectKey = {
    val name = nameOf(path)
    if (!ObjectKey.isKey(name))
      throw Errors.objectLocationInvalid(path.toString, s"'$name' cannot be the name of an object")
    ObjectKey(name)
  }

  private def prefixOf(path: Path): ObjectPrefix = ObjectPrefix(s"${key(path).name}/")

  private def nameOf(path: Path): String = {
    val uri = path.toUri
    // Spark asks with the path that it got, or with one relative to nothing.
    val isHere = uri.getScheme == null || uri.getAuthority == root.toUri.getAuthority
    if (!isHere) throw Errors.objectLocationInvalid(path.toString, s"it is not in $root's bucket")
    uri.getPath.stripPrefix("/")
  }
}

/** An object that is being written, in Spark's words. */
final private class ObjectFile(output: ObjectOutput)
    extends CheckpointFileManager.CancellableFSDataOutputStream(output) {
  override def cancel(): Unit = output.cancel()
}
