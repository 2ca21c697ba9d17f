package io.cleancut.files

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path, UnsupportedFileSystemException}

import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}

import io.cleancut.Clock
import io.cleancut.conf.{Keys, ObjectStoreSettings, Settings}
import io.cleancut.objects.{BucketPath, ObjectStores, WriteProbe}

/** Chooses how the files at a path are reached. */
private[cleancut] object FileManagers {

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID
   */
  def open(path: Path, hadoopConf: Configuration): CheckpointFileManager =
    if (path.toUri.getScheme == BucketPath.Scheme) {
      val settings = settingsIn(hadoopConf)
      val bucket = BucketPath.parse(path.toString).bucket
      val store = SharedStores.ofBucket(bucket, settings)
      new ObjectFileManager(path, store, () => prepare(path, settings), Clock.System)
    } else sparks(path, hadoopConf)

  /** @throws io.cleancut.error.CleancutException CLEANCUT_CONF_INVALID */
  def settingsIn(hadoopConf: Configuration): ObjectStoreSettings = {
    val ours = hadoopConf.getPropsWithPrefix(Keys.Prefix).asScala.toMap
    Settings.from(ours.map { case (name, value) => (Keys.Prefix + name) -> value }).objectStore
  }

  private def prepare(path: Path, settings: ObjectStoreSettings): Unit =
    Using.resource(ObjectStores.open(path.toString, settings, new Configuration, Clock.System)) {
      store =>
        new WriteProbe(store, Clock.System).run()
        new Sweep(store, Clock.System).run()
    }

  /** What Spark takes by itself, in the order in which it tries. */
  private def sparks(path: Path, hadoopConf: Configuration): CheckpointFileManager =
    try new FileContextBasedCheckpointFileManager(path, hadoopConf)
    catch {
      case _: UnsupportedFileSystemException =>
        new FileSystemBasedCheckpointFileManager(path, hadoopConf)
    }
}
