package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.cleancut.base.{Clock, HeldValues}
import io.cleancut.conf.{Keys, ObjectStoreSettings, Settings}
import io.cleancut.format.StoreLayout
import io.cleancut.objectstore.{BucketPath, ObjectStore, RootedStore, WriteProbe}
import io.cleancut.objectstore.hadoop.{AtomicRename, HadoopStore}
import io.cleancut.objectstore.locations.ObjectStores

/**
 * The object stores of this JVM, one for each bucket with its access settings, or directory. Spark
 * creates a file manager for every log and every state store and closes none of them, but
 * connections are expensive. Stores of one checkpoint are released when they are unreferenced.
 */
object SharedStores {
  final private case class Access(bucket: String, settings: ObjectStoreSettings)

  // A query that begins requests its stores several times before it keeps them.
  private val Recently = 64

  private val buckets = new ConcurrentHashMap[Access, ObjectStore]

  // The buckets that have passed the write probe.
  private val probed = ConcurrentHashMap.newKeySet[Access]()

  // By the trusted scheme, which decides whether a store is allowed, and not by the rest of the
  // configuration: Hadoop caches its file systems in the same way.
  private val directories = new HeldValues[(Path, Option[String]), ObjectStore](Recently)

  // By access settings and checkpoint prefix: the same stores, each with separate request counts.
  private val checkpoints = new HeldValues[(Access, String), ObjectStore](Recently)

  /** The store of all objects in a bucket. It is never closed. */
  def ofBucket(bucket: String, settings: ObjectStoreSettings): ObjectStore =
    buckets.computeIfAbsent(
      Access(bucket, settings),
      access =>
        ObjectStores.open(
          s"${BucketPath.Scheme}://${access.bucket}",
          access.settings,
          new Configuration,
          Clock.System
        )
    )

  /** The same store, with the request counts of one checkpoint. */
  def ofCheckpoint(path: BucketPath, settings: ObjectStoreSettings): ObjectStore =
    checkpoints((Access(path.bucket, settings), path.prefix)) {
      ofBucket(path.bucket, settings).counted
    }

  /**
   * The same store, with the request counts of the checkpoint that contains a path, if this process
   * has one.
   */
  def around(path: BucketPath, settings: ObjectStoreSettings): ObjectStore = {
    val access = Access(path.bucket, settings)
    val above = checkpoints.all.collect {
      case ((`access`, prefix), store) if path.prefix.startsWith(prefix) => prefix -> store
    }
    above
      .maxByOption { case (prefix, _) => prefix.length }
      .fold(ofBucket(path.bucket, settings)) { case (_, store) => store }
  }

  /**
   * Tests the bucket of a path, unless it has passed in this process with the same settings: a test
   * makes about 35 requests, and a store does not change its behavior between two starts.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE
   */
  def probe(path: Path, settings: ObjectStoreSettings): Unit = {
    val parsed = BucketPath.parse(path.toString)
    val access = Access(parsed.bucket, settings)
    if (!probed.contains(access)) {
      val store = new RootedStore(ofBucket(parsed.bucket, settings), parsed.prefix)
      new WriteProbe(store, Clock.System).run()
      probed.add(access)
      ()
    }
  }

  /** Probes each bucket again, as a new process does, for tests. */
  def forgetProbes(): Unit = probed.clear()

  def isInBucket(path: Path): Boolean = path.toUri.getScheme == BucketPath.Scheme

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE if cuts are enabled and a rename is a copy
   */
  def refuseCopying(path: Path, settings: Settings): Unit = {
    val scheme = Option(path.toUri.getScheme).getOrElse("")
    if (settings.wantsCuts && AtomicRename.isByCopy(scheme))
      throw AtomicRename.refusal(path.toString, scheme)
  }

  /** The objects below a query's directory, if its checkpoint location is in a bucket. */
  def rootInBucket(checkpoint: Path, settings: ObjectStoreSettings): Option[ObjectStore] =
    if (!isInBucket(checkpoint)) None
    else {
      val path = BucketPath.parse(checkpoint.toString)
      val prefix = s"${path.prefix}${StoreLayout.RootName}/"
      Some(new RootedStore(ofCheckpoint(path, settings), prefix))
    }

  /** The objects below a query's directory, in a bucket or on a Hadoop file system. */
  def rootOf(
      checkpoint: Path,
      settings: ObjectStoreSettings,
      hadoopConf: Configuration
  ): ObjectStore =
    rootInBucket(checkpoint, settings).getOrElse(rootOnFiles(checkpoint, hadoopConf))

  /** The objects below a directory of a Hadoop file system, given with its scheme. */
  def onFiles(directory: Path, hadoopConf: Configuration): ObjectStore = {
    val trusted = Option(hadoopConf.get(Keys.TrustedScheme.name))
    directories((directory, trusted))(HadoopStore.open(directory, hadoopConf, Clock.System))
  }

  /** The objects below a query's directory on a Hadoop file system. */
  def rootOnFiles(checkpoint: Path, hadoopConf: Configuration): ObjectStore =
    onFiles(new Path(checkpoint, StoreLayout.RootName), hadoopConf)
}
