package io.cleancut.objectstore.locations

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.cleancut.base.Clock
import io.cleancut.conf.ObjectStoreSettings
import io.cleancut.objectstore.{BucketPath, ObjectStore}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.objectstore.s3.{RetryPolicy, S3Connection, S3Store}

/** Opens the object store of a location. */
object ObjectStores {

  /**
   * Uses Cleancut's client for `s3://`, and Hadoop for other schemes. Makes no request yet;
   * [[WriteProbe]] tests the store.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_LOCATION_INVALID, or CLEANCUT_OBJECT_STORE_REFUSED if no region is known
   */
  def open(
      location: String,
      settings: ObjectStoreSettings,
      hadoopConf: => Configuration,
      clock: Clock
  ): ObjectStore =
    if (location.startsWith(s"${BucketPath.Scheme}://")) {
      val connection = S3Connection.of(settings, sys.env)
      val policy = RetryPolicy(settings.requestTimeoutMs)
      new S3Store(BucketPath.parse(location), connection, policy, clock)
    } else HadoopStore.open(new Path(location), hadoopConf, clock)
}
