package io.cleancut

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.files.FileManagers

/**
 * Spark's way to the files of a checkpoint, for
 * `spark.sql.streaming.checkpointFileManagerClass=io.cleancut.CleancutCheckpointFileManager`.
 *
 * With it a query's checkpoint location may be `s3://bucket/prefix` without a Hadoop file system
 * for that scheme. Every other location goes through the file manager that Spark would take.
 *
 * @param path
 *   what this manager is for
 * @throws io.cleancut.error.CleancutException
 *   CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID
 */
class CleancutCheckpointFileManager(path: Path, hadoopConf: Configuration)
    extends CheckpointFileManager {

  private val files = FileManagers.open(path, hadoopConf)

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

  override def close(): Unit = files.close()
}
