package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import scala.util.Try

import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/**
 * Delegates to another file manager, except for methods that a subclass overrides.
 *
 * @param open
 *   opens the delegate. What it throws is thrown by the methods instead of the constructor, because
 *   Spark reports an exception of the constructor as an error of its own, with a Java stack.
 */
class DelegatedFiles(open: => CheckpointFileManager) extends DelegatedClose {
  private val opened = Try(open)

  private def files: CheckpointFileManager = opened.get

  override protected def delegate: CheckpointFileManager = files

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream =
    files.createAtomic(path, overwriteIfPossible)

  override def open(path: Path): FSDataInputStream = files.open(path)

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)

  override def mkdirs(path: Path): Unit = files.mkdirs(path)

  override def exists(path: Path): Boolean = files.exists(path)

  override def delete(path: Path): Unit = files.delete(path)

  override def isLocal: Boolean = files.isLocal

  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
}
