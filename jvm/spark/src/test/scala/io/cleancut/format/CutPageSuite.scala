package io.cleancut.format

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.error.CleancutException
import io.cleancut.format.cut.{CheckedBody, CutPage, PageRef, PagedChains}

class CutPageSuite extends AnyFunSuite {
  private val random = new Random(2)

  private def id(): String = Seq.fill(32)("0123456789abcdef" (random.nextInt(16))).mkString

  private def place(epoch: Long): FramePlace = FramePlace(
    CutLayout.segment(epoch, "driver", f"$epoch%032x"),
    random.nextLong(1L << 40),
    random.nextLong(1L << 33),
    random.nextInt()
  )

  private def chain(store: StoreId, from: Long, to: Long): StoreCut = StoreCut(
    store,
    (from to to).map { number =>
      val kind = if (number == from && from > 1) FrameKind.Base else FrameKind.Delta
      (kind, StateVersion(number, id()), place(number - 1))
    }
  )

  private val chains = Seq(
    chain(StoreId(0, 0, "default"), 1, 7),
    chain(StoreId(0, 1, "default"), 7, 7),
    chain(StoreId(0, 1, "näme"), 3, 7),
    chain(StoreId(0, 10, "default"), 5, 7),
    chain(StoreId(Long.MaxValue, 2, ""), 2, 7)
  )
  private val bytes = CutPage.encode(chains)

  test("a page returns the chains that were written, and none of other stores") {
    val page = CutPage.parse("a", 6, bytes)
    assert(page.stores == chains.map(_.store))
    chains.foreach(chain => assert(page.of(chain.store) == chain.frames))
    assert(page.of(StoreId(0, 2, "default")).isEmpty)
    assert(page.segments.toSet == chains.flatMap(_.frames.map(_._3.segment)).toSet)
  }

  test("a page with a flipped bit in any byte, or that is truncated, is corrupted") {
    for (at <- bytes.indices; bit = random.nextInt(8)) {
      val flipped = bytes.clone
      flipped(at) = (flipped(at) ^ (1 << bit)).toByte
      val error = intercept[CleancutException](CutPage.parse("a", 6, flipped))
      assert(Set("CLEANCUT_CUT_CORRUPTED", "CLEANCUT_FORMAT_UNKNOWN")(error.getErrorId), s"at $at")
    }
    for (length <- bytes.indices)
      intercept[CleancutException](CutPage.parse("a", 6, bytes.take(length)))
    intercept[CleancutException](CutPage.parse("a", 6, bytes :+ 0.toByte))
  }

  test("a page with a valid checksum and invalid content is corrupted") {
    def refused(chains: Seq[StoreCut], epoch: Long = 6): String = {
      val error = intercept[CleancutException](CutPage.parse("a", epoch, CutPage.encode(chains)))
      assert(error.getErrorId == "CLEANCUT_CUT_CORRUPTED")
      error.getMessage
    }
    assert(refused(chains, epoch = 7).contains("end with 7"))
    assert(refused(Nil).contains("no stores"))
    assert(refused(chains.reverse).contains("do not ascend"))
    assert(refused(chains :+ chains.last).contains("do not ascend"))
    assert(
      refused(Seq(chain(StoreId(0, 0, "cleancut-channel-0"), 7, 7))).contains("is a shuffle input")
    )
    val holed = chains.head.copy(frames = chains.head.frames.patch(3, Nil, 1))
    assert(refused(Seq(holed)).contains("versions"))
    val headless = chains.head.copy(frames = chains.head.frames.drop(1))
    assert(refused(Seq(headless)).contains("no base"))
    val foreign = chains.head.frames.map(frame => frame.copy(_3 = frame._3.copy(segment = "x")))
    assert(refused(Seq(StoreCut(chains.head.store, foreign))).contains("not the name of a segment"))
  }

  test("a body truncated anywhere, with a valid checksum, is corrupted and allocates no memory") {
    val body = PackedFrames.encode(chains.map(chain => chain.store -> chain.frames))
    for (length <- body.indices) {
      val short = CheckedBody.encode(FormatMagic.Page, body.take(length))
      val error = intercept[CleancutException](CutPage.parse("a", 6, short))
      assert(error.getErrorId == "CLEANCUT_CUT_CORRUPTED")
    }
  }

  test("numbers of any size are read as they were written") {
    val numbers = Seq(0L, 1L, 127L, 128L, 16383L, 16384L, Int.MaxValue.toLong, Long.MaxValue) ++
      Seq.fill(1000)(random.nextLong(Long.MaxValue) >>> random.nextInt(63))
    val out = new java.io.ByteArrayOutputStream
    numbers.foreach(Varint.write(out, _))
    val in = FrameLayout.wrap(out.toByteArray)
    numbers.foreach(number => assert(Varint.read(in) == number))
    val endless = FrameLayout.wrap(Array.fill[Byte](10)(-1))
    intercept[IllegalArgumentException](Varint.read(endless))
  }

  test("each page of a cut has the stores from its first one on") {
    def page(first: StoreId) = PageRef(CutLayout.page(3, id()), 1, 0, 1, first)
    val pages = Seq(StoreId(0, 3, "b"), StoreId(0, 7, "a"), StoreId(2, 0, "a")).map(page)
    val paged = PagedChains(3, pages, Nil)
    def of(store: StoreId) = paged.pageOf(store).map(pages.indexOf(_))
    assert(of(StoreId(0, 0, "z")).contains(0) && of(StoreId(0, 3, "b")).contains(0))
    assert(of(StoreId(0, 6, "z")).contains(0) && of(StoreId(0, 7, "a")).contains(1))
    assert(of(StoreId(1, 9, "a")).contains(1) && of(StoreId(2, 0, "a")).contains(2))
    assert(of(StoreId(9, 0, "a")).contains(2))
    assert(PagedChains(0, Nil, Nil).pageOf(StoreId(0, 0, "a")).isEmpty)
  }
}
