package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.FileNotFoundException

import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  ObjectPaths
}

import io.cleancut.base.Clock
import io.cleancut.objectstore.{Listed, ObjectStore}

/**
 * The files of a checkpoint as the objects of a bucket.
 *
 * A file appears whole with the request that writes it, so nothing is renamed. There are no
 * directories: one exists as long as an object lies below it, making one does nothing, and listing
 * one that is not there finds nothing.
 *
 * @param root
 *   what this manager was made for, in the bucket of `store`
 * @param prepare
 *   what a query's start does once on the driver, before it writes anything
 */
class ObjectFileManager(
    root: Path,
    store: ObjectStore,
    prepare: () => Unit,
    clock: Clock
) extends CheckpointFileManager {
  private val paths = new ObjectPaths(root)

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream =
    new ObjectFile(
      new ObjectOutput(store, paths.key(path), overwriteIfPossible, path, clock, written(path, _))
    )

  /** Called when a file that is small enough for one request has appeared. */
  protected def written(path: Path, bytes: Array[Byte]): Unit = ()

  override def open(path: Path): FSDataInputStream =
    new FSDataInputStream(ObjectInput.open(store, paths.key(path)).getOrElse {
      throw new FileNotFoundException(s"$path does not exist")
    })

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val found = store.listLevel(paths.prefix(path)).collect {
      case Listed.Here(info)   => ObjectPaths.file(new Path(path, info.key.lastSegment), info)
      case below: Listed.Below => ObjectPaths.directory(new Path(path, below.prefix.lastSegment))
    }
    found.filter(status => filter.accept(status.getPath)).toArray
  }

  override def mkdirs(path: Path): Unit = ()

  override def exists(path: Path): Boolean =
    store.head(paths.key(path)).isDefined ||
      (!isEntry(path) && store.list(paths.prefix(path)).hasNext)

  /** Whether a path is that of an entry of one of Spark's logs, which is never a directory. */
  private def isEntry(path: Path): Boolean = {
    val log = path.getParent
    path.getName.forall(_.isDigit) && log != null &&
    (CheckpointLogs.names(log.getName) ||
      (log.getParent != null && log.getParent.getName == CheckpointLogs.Sources))
  }

  /**
   * Deletes an object; of directories only the one that this manager was made for, with all that is
   * below it. Spark deletes no others, and to look for them would cost more than to delete.
   */
  override def delete(path: Path): Unit = {
    val below = if (path == root) store.list(paths.prefix(path)).map(_.key).toSeq else Nil
    store.delete(paths.key(path) +: below)
  }

  override def isLocal: Boolean = false

  /** Spark calls it once for each start of a query. */
  override def createCheckpointDirectory(): Path = {
    prepare()
    root
  }
}

/** An object that is being written, in Spark's words. */
final private class ObjectFile(output: ObjectOutput)
    extends CheckpointFileManager.CancellableFSDataOutputStream(output) {
  override def cancel(): Unit = output.cancel()
}
