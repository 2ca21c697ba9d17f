package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{FSDataOutputStream, FileSystem, Path}
import org.apache.hadoop.util.Progressable

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.BucketFileSystem
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.CheckpointScheme

import io.cleancut.base.ClassNames

/**
 * `s3://` for Spark's file writers with [[AttemptCommits]]: files that appear when they are closed,
 * under names that are used once. It has no rename, which all other commit protocols require, so no
 * other code uses it.
 */
final class AttemptFileSystem extends BucketFileSystem {

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream =
    new FSDataOutputStream(tree.create(qualified(path)), statistics)

  /** Files need no directory. */
  override def mkdirs(path: Path, permission: FsPermission): Boolean = true

  override def delete(path: Path, recursive: Boolean): Boolean = tree.delete(qualified(path))
}

object AttemptFileSystem {

  /** Additional Hadoop settings for such files; empty if another file system has the scheme. */
  def settings(conf: Configuration): Map[String, String] = {
    val copy = new Configuration(conf)
    CheckpointScheme.register(copy)
    if (copy.get(CheckpointScheme.ImplKey) != ClassNames.FileSystem) Map.empty
    else
      Map(
        CheckpointScheme.ImplKey -> classOf[AttemptFileSystem].getName,
        CheckpointScheme.UncachedKey -> "true"
      )
  }

  /** The writable file system of a path. */
  def of(path: Path, conf: Configuration): FileSystem = {
    val copy = new Configuration(conf)
    settings(conf).foreach { case (key, value) => copy.set(key, value) }
    path.getFileSystem(copy)
  }
}
