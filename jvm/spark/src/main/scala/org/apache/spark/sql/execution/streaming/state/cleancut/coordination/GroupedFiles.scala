package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io.FileNotFoundException

import scala.util.Using

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.{
  FrameFiles,
  PendingFrame,
  StoreFiles
}
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.{
  LocalBases,
  LocalDirectory,
  RangeBytes
}

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.coordinator.state.Opened
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.{CutLayout, FrameKind, FrameName, FramePlace, StoreCut}
import io.cleancut.format.frame._
import io.cleancut.objectstore.{ObjectKey, ObjectStore}
import io.cleancut.protocol.StoreListing

/**
 * The frames of one store in the segments of its query, as referenced by the cuts. Versions before
 * the first cut are in per-store files.
 *
 * @param checkpoint
 *   the query's checkpoint location, as on its driver
 * @param root
 *   location of all names, `<checkpointLocation>/cleancut`
 * @param localCacheBytes
 *   size of the local cache of bases, for all stores together
 * @param standbyReplicas
 *   number of executors with a copy of each base, in addition to the executor that uses it
 */
final private[cleancut] class GroupedFiles(
    store: StoreId,
    checkpoint: String,
    root: ObjectStore,
    before: StoreFiles,
    hadoopConf: Configuration,
    localCacheBytes: Long,
    standbyReplicas: Int,
    clock: Clock
) extends FrameFiles {
  import GroupedFiles._

  private val archive = new CutArchive(root, clock)
  private lazy val following =
    BaseFollower.Following(root, bases, localCacheBytes, standbyReplicas, FrameFetch.threads)
  private val runId = hadoopConf.get(StreamExecution.RUN_ID_KEY, "")
  private lazy val delivery = {
    val packer = GroupedFrame.packerOf(root, runId, clock)
    new FrameDelivery(checkpoint, runId, root, packer, clock)
  }
  private val opening = new Opening(
    store,
    checkpoint,
    runId,
    hadoopConf.getBoolean(ActKey, false),
    root.requestTimeoutMs,
    clock
  )
  private val places = {
    val savepoint = Option(hadoopConf.get(SavepointKey))
    new FramePlaces(store, checkpoint, archive, runId, savepoint, clock)
  }
  private val fetch = new FrameFetch(root, runId)

  override def location: String = s"${root.location}/${CutLayout.Segments}"

  override def path(version: StateVersion, kind: FrameKind): String = places.path(version, kind)

  override def open(version: Long, id: Option[String]): Opened = {
    if (keepsBases) BaseFollower.follow(checkpoint, following)
    val opened = opening.open(version)
    places.takeOver(opened.sealedChain)
    opened.copy(accepted = id.orElse(opened.accepted))
  }

  override def accepted(version: Long, id: Option[String]): Option[String] =
    id.orElse(opening.accepted(version))

  /** Adds the location of a frame that no cut of this store references. */
  def place(version: StateVersion, kind: FrameKind, at: FramePlace): Unit =
    places.add(version, kind, at)

  override def list(first: Long, last: Long, watch: LoadWatch): StoreListing = {
    val from = Math.max(first, 1L)
    val chains = places.list(from, last, watch)
    if (chains.isEmpty) before.list(first, last)
    else {
      fetch.fetchAhead(chains.last.toSeq.flatMap(_.frames))
      val frames = chains.flatten.flatMap(_.frames)
      def of(kind: FrameKind) = frames.collect { case (`kind`, version, _) => version }.toSet
      val inCuts = StoreListing(of(FrameKind.Base), of(FrameKind.Delta))
      if (chains.size == last - from + 1) inCuts else inCuts.and(before.list(first, last))
    }
  }

  override def create(version: StateVersion, kind: FrameKind): PendingFrame =
    new GroupedFrame(
      FrameName(store, version, kind),
      opening.attempt,
      delivery,
      opening.ofTask,
      copyHere(FrameName(store, version, kind))
    )

  private def copyHere(name: FrameName): Option[LocalBases.OwnBase] =
    Option.when(name.kind == FrameKind.Base && keepsBases)(
      bases.copyOf(root.location, name, localCacheBytes)
    )

  /** No cache for checkpoints on a local disk. */
  private def keepsBases: Boolean = !isLocal && localCacheBytes > 0

  private def isLocal: Boolean = GroupedFiles.isLocal(root)

  override def read[A](version: StateVersion, kind: FrameKind, watch: LoadWatch)(
      read: (FrameReader, BlockScratch) => A
  ): A =
    places.find(version, kind).fold(before.read(version, kind, watch)(read)) { place =>
      val request = FrameRequest(path(version, kind), store, version, kind)
      val scratch = BlockScratch.borrow()
      try
        Using.resource(fetch.input(version, kind, place, watch, damaged(version, kind)))(in =>
          read(new FrameReader(request, in, scratch, watch), scratch)
        )
      catch { case e: FileNotFoundException => throw missing(version, e) }
      finally scratch.giveBack()
    }

  override def openBase(version: StateVersion, watch: LoadWatch): Option[BaseFrame] =
    places.find(version, FrameKind.Base) match {
      case None => before.openBase(version, watch)
      case Some(place) if place.length < FrameFiles.minOpenedBytes => None
      case Some(place) => FrameFetch.downloading(watch)(openBase(version, place, watch))
    }

  private def openBase(
      version: StateVersion,
      place: FramePlace,
      watch: LoadWatch
  ): Option[BaseFrame] = {
    val request = FrameRequest(path(version, FrameKind.Base), store, version, FrameKind.Base)
    val bytes = bytesOf(FrameName(store, version, FrameKind.Base), place)
    try {
      if (!isLocal && bytes.areAvailable) watch.countLocalBase()
      val opened = BaseFrame.open(request, bytes)
      if (opened.isEmpty) bytes.close()
      opened
    } catch {
      case e: Throwable =>
        bytes.close()
        throw e match {
          case e: FileNotFoundException => missing(version, e)
          case other                    => other
        }
    }
  }

  /** On a local disk a frame is read in place; a remote frame is fetched completely. */
  private def bytesOf(name: FrameName, place: FramePlace): FrameBytes =
    if (isLocal) new RangeBytes(root, ObjectKey(place.segment), place.offset, place.length)
    else bases.open(root, name, place, FrameFetch.threads, localCacheBytes)

  override def brokenChain(
      target: StateVersion,
      parent: Parent,
      detail: String
  ): CleancutException =
    places
      .source(target)
      .fold(before.brokenChain(target, parent, detail))(Errors.cutCorrupted(_, detail))

  override def of(chain: StoreCut): FrameFiles = {
    val other = new GroupedFiles(
      chain.store,
      checkpoint,
      root,
      before,
      hadoopConf,
      localCacheBytes,
      standbyReplicas,
      clock
    )
    other.places.add(chain.frames)
    other.fetch.fetchAhead(chain.frames)
    other
  }

  /** The driver deletes segments. */
  override def deleteBefore(keepFrom: Long, maxVersions: Int): Boolean = true

  /** The driver writes the format marker. */
  override def markRoot(): Unit = before.makeSparkDirectory()

  override def checkRoot(): Unit = ()

  private def damaged(version: StateVersion, kind: FrameKind) = Errors.frameCorrupted(
    path(version, kind),
    store.operator,
    store.partition,
    store.name,
    version.number,
    "the bytes do not match the cut"
  )

  private def missing(version: StateVersion, cause: FileNotFoundException) = Errors.frameMissing(
    location,
    store.operator,
    store.partition,
    store.name,
    version.number,
    cause.getMessage
  )
}

private[cleancut] object GroupedFiles {

  /** The savepoint of all reads, for readers of a checkpoint outside its query. */
  val SavepointKey = "cleancut.offline.savepoint"

  /** Whether an offline operation has the store open, and not the query. */
  val ActKey = "cleancut.offline.act"

  private val bases = new LocalBases(() => LocalDirectory.get)

  /**
   * Fetches bases to the local disk.
   *
   * @return
   *   the stores whose bases are there; no base of a checkpoint on a local disk, and no small one
   */
  def prefetch(
      root: ObjectStore,
      wanted: Seq[(FrameName, FramePlace)],
      localCacheBytes: Long
  ): Seq[StoreId] = for {
    (name, place) <- wanted
    if !isLocal(root) && BaseFollower.isKept(place)
    _ = bases.fetch(root, name, place, FrameFetch.threads, localCacheBytes)
    if bases.isHere(root.location, name)
  } yield name.store

  private def isLocal(root: ObjectStore): Boolean = root.location.startsWith("file:")
}
