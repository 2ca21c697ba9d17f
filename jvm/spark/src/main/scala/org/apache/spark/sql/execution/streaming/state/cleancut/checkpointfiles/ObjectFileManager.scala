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
 * The files of a checkpoint as objects in a bucket.
 *
 * A file appears completely with the request that writes it, so nothing is renamed. There are no
 * directories: a directory exists while it has objects, creating one has no effect, and listing a
 * missing one returns nothing.
 *
 * @param root
 *   path of this manager, in the bucket of `store`
 * @param prepare
 *   action at the start of a query, once on the driver, before any write
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

  /** Called when a file that was written with one request has appeared. */
  protected def written(path: Path, bytes: Array[Byte]): Unit = ()

  override def open(path: Path): FSDataInputStream =
    new FSDataInputStream(ObjectInput.open(store, paths.key(path)).getOrElse {
      throw new FileNotFoundException(s"$path does not exist")
    })

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val statuses = store.listLevel(paths.prefix(path)).collect {
      case Listed.Here(info)   => ObjectPaths.file(new Path(path, info.key.lastSegment), info)
      case below: Listed.Below => ObjectPaths.directory(new Path(path, below.prefix.lastSegment))
    }
    statuses.filter(status => filter.accept(status.getPath)).toArray
  }

  override def mkdirs(path: Path): Unit = ()

  override def exists(path: Path): Boolean =
    store.head(paths.key(path)).isDefined ||
      (!isEntry(path) && store.list(paths.prefix(path)).hasNext)

  /** Whether a path is that of a log entry, which is never a directory. */
  private def isEntry(path: Path): Boolean = {
    val log = path.getParent
    path.getName.forall(_.isDigit) && log != null &&
    (CheckpointLogs.names(log.getName) ||
      (log.getParent != null && log.getParent.getName == CheckpointLogs.Sources))
  }

  /**
   * Deletes an object; of directories only the root of this manager with its contents. Spark
   * deletes no others, and checking for them would cost more than deleting.
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

/** An object that is being written, as Hadoop's output stream. */
final private class ObjectFile(output: ObjectOutput)
    extends CheckpointFileManager.CancellableFSDataOutputStream(output) {
  override def cancel(): Unit = output.cancel()
}
