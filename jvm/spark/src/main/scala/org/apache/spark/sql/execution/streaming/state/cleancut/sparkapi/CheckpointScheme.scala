package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, UnsupportedFileSystemException}

import org.apache.spark.SparkContext

import io.cleancut.base.ClassNames
import io.cleancut.objectstore.BucketPath

/**
 * Registers `s3://` with Hadoop, so that Spark's state reader finds checkpoints there.
 *
 * This is decided in the driver's JVM and not in the configuration, because a file system of the
 * cluster may claim the scheme in files and jars that only Hadoop knows.
 */
object CheckpointScheme {
  val ImplKey = s"fs.${BucketPath.Scheme}.impl"

  /**
   * Without this key, Hadoop would reuse the first instance for a bucket even if the next session
   * has another endpoint.
   */
  val UncachedKey = s"$ImplKey.disable.cache"

  /**
   * Registers it for all sessions of the active context. If another file system has the scheme, it
   * stays.
   */
  def register(): Unit =
    SparkContext.getActive.foreach(context => register(context.hadoopConfiguration))

  def register(hadoopConf: Configuration): Unit =
    if (!isClaimed(hadoopConf)) {
      hadoopConf.set(ImplKey, ClassNames.FileSystem)
      hadoopConf.setBoolean(UncachedKey, true)
    }

  private def isClaimed(hadoopConf: Configuration): Boolean =
    try FileSystem.getFileSystemClass(BucketPath.Scheme, hadoopConf) != null
    catch {
      case _: UnsupportedFileSystemException => false
      // Set, but not loadable: Hadoop should report this to the user.
      case NonFatal(_) => true
    }
}
