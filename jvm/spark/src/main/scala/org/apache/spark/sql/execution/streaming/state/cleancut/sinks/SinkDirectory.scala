package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointCuts,
  SharedStores
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.CheckpointScheme

import io.cleancut.base.Clock
import io.cleancut.objectstore._

/**
 * The target directory of a sink, for the Python package. Lists are returned as texts with one line
 * per element.
 *
 * Records, which decide between writers, are objects like those of a checkpoint. Files of rows are
 * written by Spark's writers, and are listed and deleted through Hadoop.
 */
final class SinkDirectory(path: String, conf: Configuration) {
  private val requested = new Path(path)
  private val fileSystem = AttemptFileSystem.of(requested, conf)
  private val root = fileSystem.makeQualified(requested)
  private lazy val store = SinkDirectory.storeAt(root, conf)

  // Spark's readers find the files through Hadoop.
  if (SharedStores.isInBucket(root)) CheckpointScheme.register()

  def location: String = root.toString

  /**
   * Checks the target before the first write of a run, as the start of a query does for its
   * checkpoint.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE
   */
  def prepare(): Unit = {
    if (SharedStores.isInBucket(root))
      SharedStores.probe(root, CheckpointCuts.settingsIn(conf).objectStore)
    else new WriteProbe(store, Clock.System).run()
    new Leftovers(store, Clock.System).run()
  }

  /** The bytes of a record, if it exists. */
  def read(name: String): Option[Array[Byte]] = store.get(ObjectKey(name))

  /** Creates a record if absent; returns whether it did. */
  def create(name: String, body: Array[Byte]): Boolean =
    store.create(ObjectKey(name), body, WriterToken.fresh(Clock.System)) == CreateResult.Created

  /** The names of a directory's children. */
  def names(directory: String): String =
    store
      .listLevel(ObjectPrefix(s"$directory/"))
      .collect {
        case Listed.Here(info)    => info.key.lastSegment
        case Listed.Below(prefix) => prefix.lastSegment
      }
      .mkString("\n")

  /** Size in bytes and name of each file below an existing directory. */
  def files(directory: String): String = {
    val listed = fileSystem.listFiles(new Path(root, directory), true)
    val lines = Iterator.continually(listed).takeWhile(_.hasNext).map { listing =>
      val status = listing.next()
      s"${status.getLen} ${status.getPath.toString.stripPrefix(s"$location/")}"
    }
    lines.mkString("\n")
  }

  /** Deletes a directory with its contents, if it exists. */
  def delete(directory: String): Unit = {
    fileSystem.delete(new Path(root, directory), true)
    ()
  }
}

private object SinkDirectory {

  private def storeAt(root: Path, conf: Configuration): ObjectStore =
    if (SharedStores.isInBucket(root)) {
      val place = BucketPath.parse(root.toString)
      val bucket = SharedStores.ofBucket(place.bucket, CheckpointCuts.settingsIn(conf).objectStore)
      new RootedStore(bucket, place.prefix)
    } else SharedStores.onFiles(root, conf)
}
