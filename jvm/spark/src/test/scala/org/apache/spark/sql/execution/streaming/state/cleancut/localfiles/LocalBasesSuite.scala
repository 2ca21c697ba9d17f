package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.IOException
import java.nio.file.{Files, Path}
import java.util.concurrent.{ConcurrentLinkedQueue, Executors}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.ForwardingStore
import io.cleancut.engine.{OneFamily, Record}
import io.cleancut.error.CleancutException
import io.cleancut.format.{FrameKind, FrameName, FramePlace}
import io.cleancut.format.frame.{BaseFrame, FrameBytes}
import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}
import io.cleancut.testkit.{Blob, Frames, Patience, StoreOnDisk}
import io.cleancut.engine.OneFamily._

class LocalBasesSuite extends AnyFunSuite with StoreOnDisk with Patience {
  import LocalBasesSuite._

  private val threads = Executors.newFixedThreadPool(4)
  private val key = ObjectKey("a/segment")
  private val random = new Random(11)

  test("requested pieces are fetched first and the rest in the background, both correctly") {
    val bytes = put(10 * PieceBytes + 17)
    val far = new Watched(store)
    Using.resource(open(far, 5, bytes.length - 5L)) { opened =>
      for (_ <- 0 until 200) {
        val from = random.nextInt(bytes.length - 5)
        val count = random.nextInt(Math.min(100000, bytes.length - 5 - from))
        assert(
          take(opened, from.toLong, count).sameElements(bytes.slice(5 + from, 5 + from + count))
        )
      }
      eventually(assert(opened.areAvailable))
      assert(far.ranges.size == 11, "each piece is fetched once")
    }
  }

  test("the last piece is fetched before those between, which a reader of it does not wait for") {
    val bytes = put(8 * PieceBytes)
    val far = new Watched(store)
    far.block(from = PieceBytes.toLong)
    Using.resource(open(far, 0, bytes.length.toLong)) { opened =>
      far.unblock(from = 7L * PieceBytes)
      assert(take(opened, bytes.length - 9L, 9).sameElements(bytes.takeRight(9)))
      assert(!opened.areAvailable)
      far.unblockAll()
      eventually(assert(opened.areAvailable))
    }
  }

  test("a fetched base is on the local disk for the next reader") {
    val bytes = put(3 * PieceBytes)
    val far = new Watched(store)
    val bases = new LocalBases(() => local)
    for (_ <- 0 until 3)
      Using.resource(bases.open(far, name(1), place(0, bytes.length.toLong), threads, Bound)) {
        opened =>
          eventually(assert(opened.areAvailable))
          assert(take(opened, 0, bytes.length).sameElements(bytes))
      }
    assert(far.ranges.size == 3 && bases.sizeBytes == bytes.length)
  }

  test("a base that is closed before it was fetched leaves no file") {
    val bytes = put(8 * PieceBytes)
    val far = new Watched(store)
    far.block(from = 0)
    val bases = new LocalBases(() => local)
    bases.open(far, name(1), place(0, bytes.length.toLong), threads, Bound).close()
    far.unblockAll()
    eventually(assert(filesOf(local).isEmpty))
    assert(bases.sizeBytes == 0)
  }

  test("the most recently used bases are kept within the limit, and evicted ones stay readable") {
    val bytes = put(4 * PieceBytes)
    val bases = new LocalBases(() => local)
    def openPiece(piece: Int) = {
      val at = place(piece.toLong * PieceBytes, PieceBytes.toLong)
      bases.open(store, name(1, partition = piece), at, threads, 2L * PieceBytes)
    }
    val all = (0 until 4).map { piece =>
      val opened = openPiece(piece)
      eventually(assert(opened.areAvailable))
      opened
    }
    assert(bases.sizeBytes == 2L * PieceBytes && filesOf(local).size == 2)
    for ((opened, i) <- all.zipWithIndex)
      assert(take(opened, 0, 9).sameElements(bytes.slice(i * PieceBytes, i * PieceBytes + 9)))
    all.foreach(_.close())
  }

  test("a failed piece is an error for its reader, and is fetched by the next request") {
    val bytes = put(4 * PieceBytes)
    val far = new Watched(store)
    far.isBroken = true
    Using.resource(open(far, 0, bytes.length.toLong)) { opened =>
      for (_ <- 0 until 3) intercept[IOException](take(opened, 3L * PieceBytes, 10))
      far.isBroken = false
      for (piece <- 0 until 4) take(opened, piece.toLong * PieceBytes, 10)
      assert(opened.areAvailable)
    }
  }

  test("a corrupted piece is fetched again, once per reader") {
    val frame = base()
    store.put(key, frame.bytes)
    for ((corrupted, isRead) <- Seq(1 -> true, Int.MaxValue -> false)) {
      val far = new Watched(store)
      far.corrupted.set(corrupted)
      val bases = new LocalBases(() => local)
      val bytes = bases.open(far, name(1), place(0, frame.bytes.length.toLong), threads, Bound)
      def read() = {
        val log = OneFamily.newLog()
        try {
          log.attach(BaseFrame.open(frame.request, bytes).get)
          log.complete()
          log.keys
        } finally log.release()
      }
      if (isRead) assert(read() == Rows.size)
      else assert(intercept[CleancutException](read()).getErrorId == "CLEANCUT_FRAME_CORRUPTED")
      bytes.close()
      assert(far.ranges.size == 2, "the only piece is fetched and fetched again")
    }
  }

  test("two readers share one fetch, and one of them may be closed before its end") {
    val bytes = put(4 * PieceBytes)
    val far = new Watched(store)
    far.block(from = 0)
    val bases = new LocalBases(() => local)
    def opened() = bases.open(far, name(1), place(0, bytes.length.toLong), threads, Bound)
    val (first, second) = (opened(), opened())
    first.close()
    first.close()
    far.unblockAll()
    assert(take(second, 0, bytes.length).sameElements(bytes))
    second.close()
    assert(far.ranges.size == 4 && bases.sizeBytes == bytes.length)
    Using.resource(opened())(third => assert(take(third, 5, 99).sameElements(bytes.slice(5, 104))))
    assert(far.ranges.size == 4)
  }

  test("the end of a base is requested before its beginning has arrived") {
    val bytes = put(8 * PieceBytes)
    val far = new Watched(store)
    far.block(from = 0)
    Using.resource(open(far, 0, bytes.length.toLong)) { _ =>
      eventually(assert(far.ranges.asScala.toSet == Set(0L, PieceBytes, 7L * PieceBytes)))
      far.unblockAll()
    }
  }

  test("a base that was written by this process is not fetched, whatever its place") {
    val bytes = put(2 * PieceBytes)
    val far = new Watched(store)
    val bases = new LocalBases(() => local)
    def written(version: Long): LocalBases.OwnBase = {
      val copy = bases.copyOf(store.location, name(version), Bound)
      bytes.grouped(1 << 20).foreach(copy.write)
      copy
    }
    def opened(version: Long, offset: Long) =
      bases.open(far, name(version), place(offset, bytes.length.toLong), threads, Bound)
    written(1).keep()
    for (offset <- Seq(0L, 77L)) Using.resource(opened(1, offset)) { opened =>
      assert(opened.areAvailable && take(opened, 9, 5000).sameElements(bytes.slice(9, 5009)))
    }
    assert(far.ranges.isEmpty)
    written(2).drop()
    assert(filesOf(local).size == 1 && !bases.isHere(store.location, name(2)))
    // A frame of another length is another base.
    Using.resource(bases.open(far, name(1), place(0, 9), threads, Bound))(take(_, 0, 9))
    assert(far.ranges.size == 1)
  }

  test("the last two bases of each store are kept") {
    val bases = new LocalBases(() => local)
    for (version <- Seq(4L, 9L, 13L, 11L)) {
      val copy = bases.copyOf(store.location, name(version), Bound)
      copy.write(new Array[Byte](100))
      copy.keep()
    }
    val here = Seq(4L, 9L, 11L, 13L).filter(version => bases.isHere(store.location, name(version)))
    assert(here == Seq(11L, 13L) && filesOf(local).size == 2)
  }

  test("a prefetch returns when the base is on the local disk, or fails") {
    val bytes = put(5 * PieceBytes)
    val far = new Watched(store)
    val bases = new LocalBases(() => local)
    val at = place(0, bytes.length.toLong)
    far.isBroken = true
    intercept[IOException](bases.fetch(far, name(1), at, threads, Bound))
    eventually(assert(filesOf(local).isEmpty))
    far.isBroken = false
    for (_ <- 0 until 2) bases.fetch(far, name(1), at, threads, Bound)
    assert(bases.isHere(store.location, name(1)) && far.ranges.size == 5)
    // This one exceeds the limit.
    bases.fetch(far, name(2), at, threads, bytes.length - 1L)
    assert(far.ranges.size == 5)
  }

  test("a failed copy is discarded, and does not affect the upload") {
    val bases = new LocalBases(() => directory.resolve("is not there"))
    val copy = bases.copyOf(store.location, name(1), Bound)
    copy.write(new Array[Byte](100))
    copy.write(new Array[Byte](100))
    copy.keep()
    assert(bases.sizeBytes == 0 && !bases.isHere(store.location, name(1)))
  }

  test("a damaged copy is replaced by the object") {
    val frame = base()
    store.put(key, frame.bytes)
    val bases = new LocalBases(() => local)
    def opened() = bases.open(store, name(1), place(0, frame.bytes.length.toLong), threads, Bound)
    val first = opened()
    eventually(assert(first.areAvailable))
    first.close()
    for (at <- Seq(20, frame.bytes.length / 2, frame.bytes.length - 20)) {
      val copy = filesOf(local).head
      val bytes = Files.readAllBytes(copy)
      bytes(at) = (bytes(at) ^ 1).toByte
      Files.write(copy, bytes)
      val log = OneFamily.newLog()
      log.attach(BaseFrame.open(frame.request, opened()).get)
      log.complete()
      assert(log.keys == Rows.size)
      assert(Rows.forall(row => log.find(Blob.bytes(row), Record.NoBound) != 0L))
      log.release()
      eventually(assert(filesOf(local).nonEmpty))
    }
    // So is a truncated one.
    Files.write(filesOf(local).head, Array[Byte](1, 2, 3))
    assert(BaseFrame.open(frame.request, opened()).isDefined)
  }

  private def base(): Frames.Frame = {
    val log = OneFamily.newLog()
    Rows.foreach(row => log.put(Blob.bytes(row), Blob.bytes(row)))
    val target = StateVersion(3, Frames.version(3).id)
    log.seal(target, keep = 1)
    val frame =
      Frames.write(Frames.base(target, Rows.size.toLong))(log.writeBase(log.latest, _, 500))
    log.release()
    frame
  }

  private def local: Path = Files.createDirectories(directory.resolve("local"))

  private def filesOf(directory: Path): Seq[Path] =
    Using.resource(Files.list(directory))(_.iterator.asScala.toVector)

  private def open(far: ObjectStore, offset: Long, length: Long): FrameBytes =
    new LocalBases(() => local).open(far, name(1), place(offset, length), threads, Bound)

  private def place(offset: Long, length: Long) = FramePlace(key.name, offset, length, crc = 0)

  private def put(sizeBytes: Int): Array[Byte] = {
    val bytes = new Array[Byte](sizeBytes)
    random.nextBytes(bytes)
    store.put(key, bytes)
    bytes
  }

  private def take(opened: FrameBytes, from: Long, count: Int): Array[Byte] = {
    val bytes = new Array[Byte](count)
    opened.read(from, bytes, count)
    bytes
  }
}

object LocalBasesSuite {
  private val PieceBytes = PiecesOnDisk.PieceBytes
  private val Bound = 1L << 40
  private def name(version: Long, partition: Int = 0) =
    FrameName(StoreId(0, partition, "s"), Frames.version(version), FrameKind.Base)

  private val Rows = Seq.tabulate(2000)(i => Blob.of(i.toByte, (i >> 8).toByte, 7, 7, 7))

  /** A store that records ranges, and can block readers of some. */
  private class Watched(under: ObjectStore) extends ForwardingStore(under) {
    val ranges = new ConcurrentLinkedQueue[Long]
    @volatile var isBroken = false

    /** The number of ranges still to be corrupted. */
    val corrupted = new AtomicInteger
    private var blockedFrom = Long.MaxValue
    private var blockedUntil = Long.MaxValue

    def block(from: Long): Unit = synchronized {
      blockedFrom = from
    }
    def unblock(from: Long): Unit = synchronized {
      blockedUntil = from
      notifyAll()
    }
    def unblockAll(): Unit = unblock(from = 0)

    private def pass(offset: Long): Unit = synchronized {
      while (blockedFrom <= offset && offset < blockedUntil) wait()
    }

    override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
      if (isBroken) throw new IOException("the network is gone")
      ranges.add(offset)
      pass(offset)
      super.getRange(key, offset, length) match {
        case RangeResult.Found(bytes) if corrupted.getAndDecrement() > 0 =>
          val changed = bytes.clone()
          changed(bytes.length / 2) = (changed(bytes.length / 2) ^ 1).toByte
          RangeResult.Found(changed)
        case opened => opened
      }
    }
  }
}
