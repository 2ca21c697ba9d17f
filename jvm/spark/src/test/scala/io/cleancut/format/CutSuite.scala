package io.cleancut.format

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.error.CleancutException
import io.cleancut.format.cut._

class CutSuite extends AnyFunSuite {
  private val random = new Random(41)

  private def id(): String = Seq.fill(32)("0123456789abcdef" (random.nextInt(16))).mkString

  private def place(segment: Int): FramePlace = FramePlace(
    CutLayout.segment(segment.toLong, "driver", f"$segment%032x"),
    random.nextInt(1 << 20).toLong,
    random.nextInt(1 << 20).toLong,
    random.nextInt()
  )

  private val cut = Cut(
    epoch = 41,
    RunId(Some("q-1"), "run-1", 3),
    token = id(),
    writtenMs = 1700000000000L,
    commit = "v1\n{\"nextBatchWatermarkMs\":7}",
    offsets = "v1\n{\"batchWatermarkMs\":7}\n{\"0\":\"ü\"}",
    for (partition <- 0 until 20; name <- Seq(Channels.name(0), Channels.name(1)))
      yield StoreCut(
        StoreId(0, partition, name),
        (FrameKind.Base, StateVersion(39, id()), place(partition % 3)) +:
          Seq(40L, 41L, 42L).map(v => (FrameKind.Delta, StateVersion(v, id()), place(v.toInt)))
      ),
    Map("collectMs" -> 3L),
    Some(
      EpochCosts(
        ShareCosts(Map("put" -> KindCosts(7, 2, 1)), 11, 12, 13, 14, 15, 16),
        ShareCosts(Map.empty, 21, 22, 23, 24, 25, 26),
        executorCount = 31,
        Seq(StoreTime(StoreId(0, 7, "default"), "3", "host", 412))
      )
    )
  )

  test("a cut is read as it was written") {
    assert(Cut.parse("a", 41, cut.toBytes) == cut)
    assert(cut.segments.size == 6)
    assert(cut.of(StoreId(0, 7, Channels.name(0))).map(_.version.number).contains(42L))
    assert(cut.of(StoreId(1, 7, Channels.name(0))).isEmpty)
  }

  test("a cut without costs is read as it was written") {
    val free = cut.copy(costs = None)
    assert(Cut.parse("a", 41, free.toBytes) == free)
  }

  test("a cut that has no chains for its stores is not written") {
    val store = cut.stores.head.copy(store = StoreId(0, 7, "default"))
    val homeless = cut.copy(stores = cut.stores :+ store)
    intercept[IllegalArgumentException](homeless.toBytes)
    val whole = homeless.copy(paged = PagedChains(storeCount = 1, pages = Nil, window = Nil))
    assert(Cut.parse("a", 41, whole.toBytes) == whole.copy(stores = cut.stores))
  }

  test("a cut lists the bases that were adopted late") {
    val listing = cut.copy(late = Seq(LateBase(place(2).segment, since = 40)))
    assert(Cut.parse("a", 41, listing.toBytes) == listing)
  }

  test("a seal has the output of its sink") {
    val seal = cut.copy(commit = "", output = Some("rows of 41\n{\"ü\": 1}"))
    assert(Cut.parse("a", 41, seal.toBytes) == seal)
  }

  private def rawBytes(bytes: Array[Byte]): Int = FrameLayout.wrap(bytes).getInt(8)

  test("a cut that exceeds the readers' limit is not written, and the error names its contents") {
    val limit = rawBytes(cut.toBytes)
    assert(Cut.parse("a", 41, CutCodec.encode(cut, limit)) == cut)
    val thrown = intercept[CleancutException](CutCodec.encode(cut, limit - 1))
    assert(thrown.errorId == "CLEANCUT_OBJECT_TOO_LARGE")
    assert(thrown.getMessage.contains("40 stores with 160 frames, at most 4 a store"))
    assert(thrown.getMessage.contains("minDeltasForSnapshot"))
  }

  test("a cut is refused at the exact size from which it is not read") {
    val bytes = cut.toBytes
    // The checksum covers the header, so a changed length within the limit fails by it.
    def errorWith(raw: Int): String = {
      val changed = FrameLayout.wrap(bytes.clone()).putInt(8, raw)
      intercept[CleancutException](Cut.parse("a", 41, changed.array)).getMessage
    }
    assert(errorWith(CheckedBody.MaxRawBytes).contains("checksum"))
    assert(errorWith(CheckedBody.MaxRawBytes + 1).contains("does not match its header"))
  }

  test("entries of Spark's logs may exceed Jackson's limit for strings") {
    val long = cut.copy(offsets = "x" * 101000000)
    assert(Cut.parse("a", 41, long.toBytes).offsets == long.offsets)
  }

  test("a change of any byte of a cut, or of its length, is detected") {
    val bytes = cut.toBytes
    for (at <- bytes.indices) {
      val flipped = bytes.clone()
      flipped(at) = (flipped(at) ^ (1 << random.nextInt(8))).toByte
      val error =
        intercept[CleancutException](Cut.parse("s3://b/q/cleancut/cuts/41.cut", 41, flipped))
      assert(
        Set("CLEANCUT_CUT_CORRUPTED", "CLEANCUT_FORMAT_UNKNOWN")(error.getErrorId),
        s"byte $at"
      )
      assert(error.getMessage.contains("cuts/41.cut"))
    }
    for (length <- Seq(0, 1, 19, 20, bytes.length / 2, bytes.length - 1)) {
      val error = intercept[CleancutException](Cut.parse("a", 41, bytes.take(length)))
      assert(error.getErrorId == "CLEANCUT_CUT_CORRUPTED")
    }
    intercept[CleancutException](Cut.parse("a", 41, bytes :+ 0.toByte))
  }

  private val identity = SegmentIdentity(41, "driver", "run-1", 3)
  private val segment = new Segment(CutLayout.segment(41, "driver", id()), identity)
  private val frames = for (partition <- 0 until 30) yield {
    val name = FrameName(StoreId(0, partition, "default"), StateVersion(42, id()), FrameKind.Delta)
    SealedFrame(name, attempt = 100L + partition, random.nextBytes(1 + random.nextInt(3000)))
  }

  private def parsed(bytes: Array[Byte]): (SegmentIdentity, Seq[PlacedFrame]) = {
    val footer = bytes.takeRight(Segment.footerBytes("a", bytes, bytes.length.toLong))
    Segment.parse(segment.name, bytes.take(1000), footer)
  }

  test("the table of a segment has the position of each frame") {
    val (bytes, placed) = segment.pack(frames)
    assert(parsed(bytes) == ((identity, placed)))
    for ((frame, found) <- frames.zip(placed)) {
      assert(found.name == frame.name && found.attempt == frame.attempt)
      val from = found.place.offset.toInt
      assert(bytes.slice(from, from + found.place.length.toInt).sameElements(frame.bytes))
    }
  }

  test("a segment whose table exceeds the readers' limit is not written") {
    val small = new Segment(segment.name, identity, maxTableBytes = 1000)
    val thrown = intercept[CleancutException](small.pack(frames))
    assert(thrown.errorId == "CLEANCUT_OBJECT_TOO_LARGE")
    assert(thrown.getMessage.contains("30 frames"))
  }

  test("damage of the header, table or trailer of a segment is detected") {
    val (bytes, placed) = segment.pack(frames)
    val end = placed.map(f => f.place.offset + f.place.length).max.toInt
    val unused = bytes.length - 8 until bytes.length - 4
    for (at <- (0 until segment.header.length) ++ (end until bytes.length).diff(unused)) {
      val flipped = bytes.clone()
      flipped(at) = (flipped(at) ^ (1 << random.nextInt(8))).toByte
      intercept[CleancutException](parsed(flipped))
    }
    for (length <- Seq(0, 27, bytes.length - 1))
      intercept[CleancutException](parsed(bytes.take(length)))
  }

  test("names are built and parsed") {
    val writer = CutLayout.segment(7, "exec/../1", "0" * 32)
    assert(writer == s"segments/00000000000000000007/exec1-${"0" * 32}.seg")
    assert(CutLayout.parseSegment(writer).contains(7L))
    assert(CutLayout.parseSegment("segments/7/x.seg").isEmpty)
    assert(CutLayout.parseCut(CutLayout.cut(9).stripPrefix(CutLayout.Cuts)).contains(9L))
    assert(CutLayout.parseOwner(CutLayout.owner(9).stripPrefix(CutLayout.Owners)).contains(9L))
    assert(CutLayout.parseCut("9.cut").isEmpty)
  }
}
