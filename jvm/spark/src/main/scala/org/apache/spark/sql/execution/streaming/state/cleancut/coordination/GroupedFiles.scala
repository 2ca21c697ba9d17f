package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io.{ByteArrayInputStream, FileNotFoundException, InputStream}
import java.util.Arrays
import java.util.concurrent.{
  CompletableFuture,
  ConcurrentHashMap,
  ExecutionException,
  Executor,
  Executors
}
import java.util.zip.CRC32

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SharedStores
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.{
  FrameFiles,
  PendingFrame,
  StoreFiles
}
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.{
  CheckedInput,
  LocalBases,
  LocalDirectory,
  RangeBytes,
  RangeInput
}
import org.apache.spark.{SparkContext, TaskContext}

import io.cleancut.base.{Clock, DaemonThreads, StateVersion, StoreId}
import io.cleancut.conf.Keys
import io.cleancut.coordinator.{Opened, TaskStart}
import io.cleancut.cutstore.{CutArchive, CutCache, SegmentPieces}
import io.cleancut.error.Errors
import io.cleancut.format._
import io.cleancut.objectstore.{ObjectKey, ObjectStore}
import io.cleancut.protocol.StoreListing

/**
 * The frames of one store in the segments of its query, where the cuts say that they are. Versions
 * from before the first cut lie in files of the store's own, and are read there.
 *
 * @param checkpoint
 *   the query's checkpoint location, as its driver knows it
 * @param root
 *   what all names are below, `<checkpointLocation>/cleancut`
 * @param localBasesBytes
 *   how much of the local disk the bases take that are kept there, those of all stores together
 * @param standbyReplicas
 *   how many executors have a copy of each base, beside that which works on it
 */
final private[cleancut] class GroupedFiles(
    store: StoreId,
    checkpoint: String,
    root: ObjectStore,
    before: StoreFiles,
    hadoopConf: Configuration,
    localBasesBytes: Long,
    standbyReplicas: Int,
    clock: Clock
) extends FrameFiles {
  import GroupedFiles._

  private val archive = new CutArchive(root, clock)
  private lazy val following =
    BaseFollower.Following(root, bases, localBasesBytes, standbyReplicas, threads)
  private val runId = hadoopConf.get(StreamExecution.RUN_ID_KEY, "")
  private lazy val delivery = {
    val packer = GroupedFrame.packerOf(root, runId, clock)
    new FrameDelivery(checkpoint, runId, root, packer, clock)
  }
  private val places = new ConcurrentHashMap[(StateVersion, FrameKind), FramePlace]
  // What a seal names of a version that has no cut yet.
  @volatile private var takenOver = Option.empty[StoreCut]
  private val fetched = new ConcurrentHashMap[(StateVersion, FrameKind), Fetching]

  override def location: String = s"${root.location}/${CutLayout.Segments}"

  override def path(version: StateVersion, kind: FrameKind): String =
    Option(places.get((version, kind)))
      .fold(s"${root.location}/${CutLayout.segmentsOf(version.number - 1)}")(place =>
        s"${root.location}/${place.segment} at ${place.offset}"
      )

  override def open(version: Long, id: Option[String]): Opened = {
    if (keepsBases) BaseFollower.follow(checkpoint, following)
    val start = startAt(version)
    ofTask.fold(started(start))(_.open(start)) match {
      case Right(opened) if opened.unread.nonEmpty =>
        throw Errors.channelUnread(checkpoint, version - 1, opened.unread)
      case Right(opened) =>
        takenOver = opened.sealedAs
        opened.copy(accepted = id.orElse(opened.accepted))
      case Left(_) if isOfBatch => Opened(accepted(version, id), needsBase = false)
      // The driver would commit without a cut, and would not even know that there are some.
      case Left(NoQuery) if !SharedStores.isInBucket(new Path(checkpoint)) =>
        val reason = s"it has cuts, or ${Keys.Cuts.name} is true"
        throw Errors.cutsRequired(checkpoint, reason, "Spark's commit log is not kept by Cleancut")
      case Left(other) =>
        throw GroupedFrame.errorOf(other, checkpoint, version, s"$store $version")
    }
  }

  override def accepted(version: Long, id: Option[String]): Option[String] = id.orElse {
    // A task of a query that reads a store opens it for writing behind that; one of an act may not.
    val opens = runId.nonEmpty && !hadoopConf.getBoolean(ActKey, false)
    val known = if (opens) ofTask.flatMap(_.opened(startAt(version)).toOption) else None
    if (version == 0L) None
    else
      known.map(_.accepted).getOrElse {
        CutsClient.ask(Accepted(checkpoint, store, version), clock, root.requestTimeoutMs) match {
          case AcceptedReply(counted) => counted
          case _                      => None
        }
      }
  }

  /**
   * Whether this is no task of the run in whose name it asks, whose jobs have its name. Up to Spark
   * 4.2 the reader of state opens a store for writing, in a run that it makes up, only to name the
   * family that it then reads; 4.3 opens it for reading. What it would commit, the driver refuses.
   */
  private def isOfBatch: Boolean = !hadoopConf.getBoolean(ActKey, false) &&
    Option(TaskContext.get()).exists(_.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID) != runId)

  private def startAt(version: Long) =
    TaskStart(currentAttempt, store.operator, store.partition, version, Seq(store))

  private def ofTask: Option[OperatorTask] =
    OperatorTask.current(checkpoint, runId, store.operator, root.requestTimeoutMs)

  /** What is opened outside of a task. */
  private def started(start: TaskStart): Either[CutsReply, Opened] =
    OperatorTask.ask(checkpoint, runId, start, root.requestTimeoutMs) match {
      case StartReply(found) => Right(found.stores(store))
      case other             => Left(other)
    }

  /** Where a frame lies that no cut of this store names. */
  def place(version: StateVersion, kind: FrameKind, at: FramePlace): Unit = {
    places.put((version, kind), at)
    ()
  }

  override def list(first: Long, last: Long, watch: LoadWatch): StoreListing = {
    val known = archive.cutBytesRead
    val ahead = takenOver.filter(_.version.number == last)
    val numbers = Math.max(first, 1L) to (if (ahead.isDefined) last - 1 else last)
    val cuts = numbers.flatMap(made) ++ ahead.map(Some(_))
    watch.found(archive.cutBytesRead - known)
    if (cuts.isEmpty) before.list(first, last)
    else {
      val found = cuts.flatten.flatMap(_.frames)
      found.foreach { case (kind, version, place) => places.put((version, kind), place) }
      fetchAhead(cuts.last.toSeq.flatMap(_.frames))
      def of(kind: FrameKind) = found.collect { case (`kind`, version, _) => version }.toSet
      val own = StoreListing(of(FrameKind.Base), of(FrameKind.Delta))
      if (cuts.size == last - Math.max(first, 1L) + 1) own
      else own.and(before.list(first, last))
    }
  }

  /** What made a version, as its cut says; None if there is no cut of it. */
  private def made(version: Long): Option[Option[StoreCut]] =
    Option(hadoopConf.get(SavepointKey)) match {
      case Some(name) =>
        CutCache.savepoint(archive, runId, name, version - 1).map(_.of(store))
      case None =>
        toldByDriver(version)
          .map(Some(_))
          .orElse(CutCache.read(archive, runId, version - 1).map(_.of(store)))
    }

  /** The driver of a run knows its last cut, so that no task of it need read that. */
  private def toldByDriver(version: Long): Option[StoreCut] =
    if (TaskContext.get() == null || runId.isEmpty) None
    else
      CutsClient.ask(
        ChainOf(checkpoint, runId, store, version),
        clock,
        root.requestTimeoutMs
      ) match {
        case ChainReply(chain) => chain
        case _                 => None
      }

  override def create(version: StateVersion, kind: FrameKind): PendingFrame =
    new GroupedFrame(
      FrameName(store, version, kind),
      currentAttempt,
      delivery,
      ofTask,
      copyHere(FrameName(store, version, kind))
    )

  private def copyHere(name: FrameName): Option[LocalBases.OwnBase] =
    Option.when(name.kind == FrameKind.Base && keepsBases)(
      bases.copyOf(root.location, name, localBasesBytes)
    )

  /** Not of what lies on a local disk anyway. */
  private def keepsBases: Boolean = !isLocal && localBasesBytes > 0

  private def isLocal: Boolean = root.location.startsWith("file:")

  override def read[A](version: StateVersion, kind: FrameKind, watch: LoadWatch)(
      read: (FrameReader, BlockScratch) => A
  ): A = {
    val place = places.get((version, kind))
    if (place == null) before.read(version, kind, watch)(read)
    else {
      val request = FrameRequest(path(version, kind), store, version, kind)
      val scratch = BlockScratch.borrow()
      try
        Using.resource(input(version, kind, place, watch))(in =>
          read(new FrameReader(request, in, scratch, watch), scratch)
        )
      catch { case e: FileNotFoundException => throw missing(version, e) }
      finally scratch.giveBack()
    }
  }

  override def openBase(version: StateVersion, watch: LoadWatch): Option[BaseFrame] = {
    val place = places.get((version, FrameKind.Base))
    if (place == null) before.openBase(version, watch)
    else if (place.length < FrameFiles.minOpenedBytes) None
    else
      downloading(watch) {
        val request = FrameRequest(path(version, FrameKind.Base), store, version, FrameKind.Base)
        val bytes = bytesOf(FrameName(store, version, FrameKind.Base), place)
        try {
          if (!isLocal && bytes.areAtHand) watch.foundHere()
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
  }

  /** On a local disk a frame is read in its place; from farther off it comes as a whole. */
  private def bytesOf(name: FrameName, place: FramePlace): FrameBytes =
    if (isLocal) new RangeBytes(root, ObjectKey(place.segment), place.offset, place.length)
    else bases.open(root, name, place, threads, localBasesBytes)

  override def of(chain: StoreCut): FrameFiles = {
    val other = new GroupedFiles(
      chain.store,
      checkpoint,
      root,
      before,
      hadoopConf,
      localBasesBytes,
      standbyReplicas,
      clock
    )
    chain.frames.foreach { case (kind, version, at) => other.place(version, kind, at) }
    other.fetchAhead(chain.frames)
    other
  }

  /** The driver sweeps the segments. */
  override def deleteBefore(keepFrom: Long, maxVersions: Int): Boolean = true

  /** The driver marks the root. */
  override def markRoot(): Unit = before.makeSparkDirectory()

  override def checkRoot(): Unit = ()

  /** Of the task that this thread runs; maintenance is none. */
  private def currentAttempt: Long =
    Option(TaskContext.get()).fold(SealedFrame.Maintenance)(_.taskAttemptId())

  /** What is at hand as a whole is compared with the cut before anything is made of it. */
  private def input(
      version: StateVersion,
      kind: FrameKind,
      place: FramePlace,
      watch: LoadWatch
  ): InputStream =
    if (place.length > PieceBytes)
      new CheckedInput(inPieces(place), place.crc, damaged(version, kind))
    else {
      val bytes = downloading(watch)(
        Option(fetched.remove((version, kind))).fold(whole(place))(_.get())
      )
      val crc = new CRC32
      crc.update(bytes)
      if (crc.getValue.toInt != place.crc) throw damaged(version, kind)
      new ByteArrayInputStream(bytes)
    }

  private def downloading[A](watch: LoadWatch)(body: => A): A = {
    val phase = watch.enter(LoadPhase.Download)
    try body
    catch { case e: ExecutionException => throw e.getCause }
    finally {
      watch.enter(phase)
      ()
    }
  }

  /** The next piece comes while one is decoded. */
  private def inPieces(place: FramePlace): InputStream =
    input(place, ahead = Some((threads, PiecesAhead)))

  private def whole(place: FramePlace): Array[Byte] =
    Using.resource(input(place, ahead = None))(_.readAllBytes())

  /** Other stores of this process have frames beside these. */
  private def shared(place: FramePlace): Array[Byte] =
    SegmentPieces.shared.range(root, runId, place).getOrElse(whole(place))

  private def input(place: FramePlace, ahead: Option[(Executor, Int)]): InputStream =
    new RangeInput(root, ObjectKey(place.segment), place.offset, place.length, PieceBytes, ahead)

  /**
   * Begins to read the small frames of a chain, several at once, and those that lie one after the
   * other together; large ones are read when due.
   */
  private def fetchAhead(chain: Seq[(FrameKind, StateVersion, FramePlace)]): Unit = {
    fetched.clear()
    if (chain.size > 1) {
      val small = chain.filter(_._3.length <= MaxAheadBytes)
      val names = small.map { case (kind, version, place) => place -> (version, kind) }.toMap
      FramePlace.ranges(small.map(_._3), maxGap = 0L, PieceBytes.toLong).foreach { near =>
        val from = near.head.offset
        val range = near.head.copy(length = near.last.offset + near.last.length - from)
        val ahead = CompletableFuture.supplyAsync[Array[Byte]](() => shared(range), threads)
        near.foreach { place =>
          val at = (place.offset - from).toInt
          val own = ahead.thenApply[Array[Byte]](Arrays.copyOfRange(_, at, at + place.length.toInt))
          fetched.put(names(place), own)
        }
      }
    }
  }

  private def damaged(version: StateVersion, kind: FrameKind) = Errors.frameDamaged(
    path(version, kind),
    store.operator,
    store.partition,
    store.name,
    version.number,
    "these are not the bytes that the cut names"
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

  /**
   * The savepoint to which all that is read belongs, for who looks at a checkpoint from outside.
   */
  val SavepointKey = "cleancut.offline.savepoint"

  /** Whether who has a store open is an act on the checkpoint, and not the query. */
  val ActKey = "cleancut.offline.act"

  private val bases = new LocalBases(() => LocalDirectory.get)
  private type Fetching = CompletableFuture[Array[Byte]]

  private val PieceBytes = 8 << 20
  private val PiecesAhead = 1
  private val MaxAheadBytes = 1L << 20

  /** Reads at once in one process, while stores are loaded. */
  private val Readers = 8
  private val threads =
    Executors.newFixedThreadPool(Readers, DaemonThreads.named("cleancut-restore"))
}
