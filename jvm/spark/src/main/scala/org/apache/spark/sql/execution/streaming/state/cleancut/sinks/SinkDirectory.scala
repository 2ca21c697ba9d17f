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
 * The place that a sink writes to, for the Python package: what may have many elements is a text
 * with a line for each.
 *
 * Records, which decide who writes what, are objects like those of a checkpoint. Files of rows are
 * written by Spark's own writers, and are seen and deleted through Hadoop as those see them.
 */
final class SinkDirectory(path: String, conf: Configuration) {
  private val asked = new Path(path)
  private val fileSystem = AttemptFileSystem.of(asked, conf)
  private val root = fileSystem.makeQualified(asked)
  private lazy val store = SinkDirectory.storeAt(root, conf)

  // Spark's own readers find the files through Hadoop.
  if (SharedStores.isInBucket(root)) CheckpointScheme.register()

  def location: String = root.toString

  /**
   * What the first write of a run needs to be sure of, as the start of a query does for its
   * checkpoint.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE
   */
  def prepare(): Unit = {
    new WriteProbe(store, Clock.System).run()
    new Leftovers(store, Clock.System).run()
  }

  /** The bytes of a record, if it is there. */
  def read(name: String): Option[Array[Byte]] = store.get(ObjectKey(name))

  /** Writes a record unless there is one of this name; whether it did. */
  def create(name: String, body: Array[Byte]): Boolean =
    store.create(ObjectKey(name), body, WriterToken.fresh(Clock.System)) == CreateResult.Created

  /** What lies directly below a directory. */
  def names(directory: String): String =
    store
      .listLevel(ObjectPrefix(s"$directory/"))
      .collect {
        case Listed.Here(info)    => info.key.lastSegment
        case Listed.Below(prefix) => prefix.lastSegment
      }
      .mkString("\n")

  /** Size in bytes and name of each file below a directory that is there. */
  def files(directory: String): String = {
    val found = fileSystem.listFiles(new Path(root, directory), true)
    val lines = Iterator.continually(found).takeWhile(_.hasNext).map { listing =>
      val status = listing.next()
      s"${status.getLen} ${status.getPath.toString.stripPrefix(s"$location/")}"
    }
    lines.mkString("\n")
  }

  /** Removes a directory with all that is in it, if it is there. */
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
