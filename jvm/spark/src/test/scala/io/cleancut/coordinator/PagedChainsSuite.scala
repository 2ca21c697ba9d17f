package io.cleancut.coordinator

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Crc, StateVersion, StoreId}
import io.cleancut.coordinator.state.QueryLedger
import io.cleancut.cutstore.{CutParts, Paging, StoredCut}
import io.cleancut.error.CleancutException
import io.cleancut.protocol.{Ack, CutWindow, WrittenPages}
import io.cleancut.testkit.{Draws, Seeded}
import io.cleancut.format._
import io.cleancut.format.cut.{Counted, Cut, CutPage, PageRef, SealedFrame, Segment, WindowPart}

/**
 * The chains that a cut leads to are the frames that the tasks wrote, with lost attempts, late
 * bases and new pages.
 */
class PagedChainsSuite extends AnyFunSuite {
  import PagedChainsSuite._

  for (seed <- 1L to Seeds)
    test(s"pages and window lead to all chains, seed $seed") {
      val history = new History(Seeded.random(seed))
      for (epoch <- 0L until Epochs) {
        val (whole, cut) = history.next(epoch)
        val parsed = Cut.parse("cut", epoch, cut.toBytes)
        assert(parsed == cut.copy(stores = cut.inFlight))
        val stored = new StoredCut(parsed, "cut", history)
        assert(stored.whole.stores == whole.stores.sortBy(_.store)(StoreOrder), s"epoch $epoch")
        whole.stores
          .foreach(chain => assert(stored.of(chain.store).contains(chain), s"epoch $epoch"))
        assert(stored.of(StoreId(99, 0, "none")).isEmpty)
        assert(whole.segments.toSet.subsetOf(stored.segments))
        val longest = 4 * (history.paging.epochs + history.paging.longEpochs)
        assert(cut.paged.window.map(_.epoch).distinct.size <= longest)
      }
      assert(history.turns > 0 && history.uncounted > 0 && history.late > 0)
    }

  test("a cut that omits a part of its window, or counts all frames, is corrupted") {
    val history = new History(new Random(7))
    val cuts = (0L until Epochs).map(epoch => history.next(epoch)._2)
    val broken = cuts.flatMap { cut =>
      val paged = cut.paged
      val without = paged.window.indices.map(index => paged.window.patch(index, Nil, 1))
      val counting =
        paged.window.collect { case part if part.counted != Counted.All => part }.map { part =>
          paged.window.map(other => if (other == part) part.copy(counted = Counted.All) else other)
        }
      (without ++ counting).map(window => cut.copy(paged = paged.copy(window = window)))
    }
    val detected = broken.count { cut =>
      val stored = new StoredCut(cut.copy(stores = cut.inFlight), "cut", history)
      try stored.whole.stores != history.chains(cut.epoch)
      catch { case e: CleancutException => e.getErrorId == "CLEANCUT_CUT_CORRUPTED" }
    }
    // A part may have only frames that a later base has replaced.
    assert(detected > broken.size / 2, s"of ${broken.size}")
  }

  test("a cut whose store count differs from that of its chains is corrupted") {
    val history = new History(new Random(8))
    val cut = (0L until Epochs).map(epoch => history.next(epoch)._2).last
    val paged = cut.paged
    for (more <- Seq(-1, 1)) {
      val other = cut.copy(
        stores = Nil,
        paged = paged.copy(storeCount = paged.storeCount + more)
      )
      val error = intercept[CleancutException](new StoredCut(other, "cut", history).whole)
      assert(error.getErrorId == "CLEANCUT_CUT_CORRUPTED")
    }
  }
}

private object PagedChainsSuite {
  val Seeds: Long = Draws.of(40).toLong
  val Epochs = 40L

  /** Cuts that the ledger of a query makes, and the objects that they reference. */
  final class History(random: Random) extends CutParts {
    val paging: Paging =
      Paging(
        1 + random.nextInt(4),
        epochs = 1 + random.nextInt(5),
        longEpochs = 1 + random.nextInt(8)
      )
    private val ledger = new QueryLedger(-1, None)
    private val pages = mutable.Map.empty[String, Array[Byte]]
    private val segments = mutable.Map.empty[String, Array[Byte]]
    val chains = mutable.Map.empty[Long, Seq[StoreCut]]
    private var stores = 1 + random.nextInt(3)
    private var objects = 0L
    private var attempts = 0L
    var turns = 0
    var uncounted = 0
    var late = 0

    /** The cut of an epoch with all its chains, and the cut that is written. */
    def next(epoch: Long): (Cut, Cut) = {
      if (random.nextInt(4) == 0) stores += random.nextInt(3)
      val frames = mutable.Buffer.empty[SealedFrame]
      for (store <- 0 until stores) {
        val losing = if (random.nextInt(6) == 0) 1 else 0
        for (_ <- 0 to losing) {
          attempts += 1
          val id = StoreId(store / 2L, store % 2, "default")
          assert(ledger.open(attempts, id, epoch).isRight)
          val isKnown = epoch == 0 || ledger.lastCut.exists(_.of(id).isDefined)
          val kind = if (isKnown) FrameKind.Delta else FrameKind.Base
          frames += frame(id, epoch + 1, kind, attempts)
        }
      }
      write(epoch, random.shuffle(frames.toSeq)).foreach(ledger.ack)
      bases(epoch)
      val chains =
        ledger.close(epoch, None).fold(lack => throw new AssertionError(s"$lack"), identity)
      val whole = LedgerFrames.cut(epoch, chains: _*)
      val window = ledger.turn()._1.and(parts(epoch, chains))
      val cut = whole.copy(paged = window.paged(chains))
      uncounted += cut.paged.window.count(_.counted != Counted.All)
      this.chains(epoch) = chains
      ledger.advance(cut)
      turn(cut)
      (whole, cut)
    }

    private def bases(epoch: Long): Unit = ledger.lastCut.foreach { cut =>
      val taken = cut.stores.filter(_ => random.nextInt(8) == 0)
      taken.foreach { chain =>
        val (_, version, _) = chain.frames(random.nextInt(chain.frames.size))
        val name = FrameName(chain.store, version, FrameKind.Base)
        val base = SealedFrame(name, SealedFrame.Maintenance, Array.fill(5)(1))
        val other = frame(chain.store, version.number, FrameKind.Base, attempt = 0L)
        // A frame that is not reported may share its segment.
        val written =
          write(version.number - 1, if (random.nextBoolean()) Seq(base, other) else Seq(base))
        if (ledger.ack(written.head) == Ack.Accepted && version.number < epoch) late += 1
      }
    }

    private def parts(epoch: Long, chains: Seq[StoreCut]): Seq[WindowPart] =
      CutWindow.first(chains, ledger.lastCut).toSeq.sortBy(_._1).map { case (segment, offsets) =>
        val end = ledger.ends.of(segment).get
        WindowPart(segment, epoch, end, ledger.ends.counted(segment, offsets))
      }

    private def turn(cut: Cut): Unit = paging.due(ledger.window, cut).foreach { due =>
      turns += 1
      val turned = WrittenPages(
        due.epoch,
        due.chains.map { case (old, chains) => old -> chains.map(page(due.epoch, _)) }
      )
      if (random.nextInt(4) > 0) ledger.recordPages(turned)
    }

    private def page(epoch: Long, chains: Seq[StoreCut]): PageRef = {
      val bytes = CutPage.encode(chains)
      val name = CutLayout.page(epoch, newId())
      pages(name) = bytes
      PageRef(name, bytes.length.toLong, Crc.of(bytes), chains.size, chains.head.store)
    }

    private def frame(store: StoreId, version: Long, kind: FrameKind, attempt: Long) =
      SealedFrame(
        FrameName(store, StateVersion(version, newId()), kind),
        attempt,
        Array.fill(1 + random.nextInt(9))(0)
      )

    private def write(epoch: Long, frames: Seq[SealedFrame]): Seq[PlacedFrame] = {
      val size = 1 + random.nextInt(frames.size)
      frames.grouped(size).toSeq.flatMap { group =>
        val name = CutLayout.segment(epoch, "driver", newId())
        val segment = new Segment(name, SegmentIdentity(epoch, "driver", "run", 1))
        val (bytes, placed) = segment.pack(group)
        segments(name) = bytes
        placed
      }
    }

    private def newId(): String = {
      objects += 1
      f"$objects%032x"
    }

    override def page(ref: PageRef): CutPage = CutParts.page(ref.name, ref, pages(ref.name))

    override def table(part: WindowPart): PackedFrames =
      CutParts.table(
        part.segment,
        part,
        segments(part.segment).takeRight(part.end.footerBytes)
      )
  }
}
