package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.cleancut.base.{Clock, HeldValues}
import io.cleancut.conf.{Keys, ObjectStoreSettings, Settings}
import io.cleancut.format.StoreLayout
import io.cleancut.objectstore.{BucketPath, ObjectStore, RootedStore}
import io.cleancut.objectstore.hadoop.{AtomicRename, HadoopStore}
import io.cleancut.objectstore.locations.ObjectStores

/**
 * The stores of this JVM, one for each bucket and way to reach it or directory. Spark makes a file
 * manager for every log and every state store, and closes none of them; connections are worth more
 * than that. What belongs to one checkpoint goes when nobody holds it any more.
 */
object SharedStores {
  final private case class Way(bucket: String, settings: ObjectStoreSettings)

  // A query that begins looks for its stores several times before it keeps them.
  private val Recently = 64

  private val buckets = new ConcurrentHashMap[Way, ObjectStore]

  // By the scheme that the user vouches for, which decides whether there is one at all. Whatever
  // the rest of the configuration is: Hadoop keeps its own file systems like that too.
  private val directories = new HeldValues[(Path, Option[String]), ObjectStore](Recently)

  // By the way and the prefix of a checkpoint: the same stores, each with counts of its own.
  private val checkpoints = new HeldValues[(Way, String), ObjectStore](Recently)

  /** The store of all objects in a bucket. Nobody closes it. */
  def ofBucket(bucket: String, settings: ObjectStoreSettings): ObjectStore =
    buckets.computeIfAbsent(
      Way(bucket, settings),
      way =>
        ObjectStores.open(
          s"${BucketPath.Scheme}://${way.bucket}",
          way.settings,
          new Configuration,
          Clock.System
        )
    )

  /** The same, with the counts of one checkpoint alone. */
  def ofCheckpoint(path: BucketPath, settings: ObjectStoreSettings): ObjectStore =
    checkpoints((Way(path.bucket, settings), path.prefix)) {
      ofBucket(path.bucket, settings).counted
    }

  /** The same, with the counts of the checkpoint that a path lies in, if this process has one. */
  def around(path: BucketPath, settings: ObjectStoreSettings): ObjectStore = {
    val way = Way(path.bucket, settings)
    val above = checkpoints.all.collect {
      case ((`way`, prefix), store) if path.prefix.startsWith(prefix) => prefix -> store
    }
    above
      .maxByOption { case (prefix, _) => prefix.length }
      .fold(ofBucket(path.bucket, settings)) { case (_, store) => store }
  }

  def isInBucket(path: Path): Boolean = path.toUri.getScheme == BucketPath.Scheme

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE, cuts are asked for where a rename is a copy
   */
  def refuseCopying(path: Path, settings: Settings): Unit = {
    val scheme = Option(path.toUri.getScheme).getOrElse("")
    if (settings.wantsCuts && AtomicRename.isByCopy(scheme))
      throw AtomicRename.refusal(path.toString, scheme)
  }

  /** What lies below a query's own directory, where its checkpoint location is in a bucket. */
  def rootInBucket(checkpoint: Path, settings: ObjectStoreSettings): Option[ObjectStore] =
    if (!isInBucket(checkpoint)) None
    else {
      val path = BucketPath.parse(checkpoint.toString)
      val prefix = s"${path.prefix}${StoreLayout.RootName}/"
      Some(new RootedStore(ofCheckpoint(path, settings), prefix))
    }

  /** What lies below a directory of a Hadoop file system, given with its scheme. */
  def onFiles(directory: Path, hadoopConf: Configuration): ObjectStore = {
    val trusted = Option(hadoopConf.get(Keys.TrustedScheme.name))
    directories((directory, trusted))(HadoopStore.open(directory, hadoopConf, Clock.System))
  }

  /** What lies below a query's own directory there. */
  def rootOnFiles(checkpoint: Path, hadoopConf: Configuration): ObjectStore =
    onFiles(new Path(checkpoint, StoreLayout.RootName), hadoopConf)
}
