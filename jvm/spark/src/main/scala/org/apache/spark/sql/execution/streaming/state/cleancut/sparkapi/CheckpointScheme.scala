package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, UnsupportedFileSystemException}

import org.apache.spark.SparkContext

import io.cleancut.base.ClassNames
import io.cleancut.objectstore.BucketPath

/**
 * Makes `s3://` known to Hadoop, so that Spark's reader of state finds a checkpoint there.
 *
 * This is decided in the driver's JVM and not in its configuration beforehand, because a file
 * system of the cluster may claim the scheme in files and jars that only Hadoop knows.
 */
object CheckpointScheme {
  val ImplKey = s"fs.${BucketPath.Scheme}.impl"

  /** Hadoop would keep the first instance for a bucket, whatever endpoint the next session has. */
  val UncachedKey = s"$ImplKey.disable.cache"

  /**
   * For all sessions of the context that runs. Where another file system has the scheme it stays.
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
      // Named, but not to be loaded: the user will want to know, and from Hadoop.
      case NonFatal(_) => true
    }
}
