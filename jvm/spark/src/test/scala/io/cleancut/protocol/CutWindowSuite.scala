package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.QueryLedger
import io.cleancut.format.{CutLayout, SegmentEnd}
import io.cleancut.format.cut.{Counted, PageRef, WindowPart}

/** The pages and the segments that the next cut names, after pages were written. */
class CutWindowSuite extends AnyFunSuite {
  private val window = CutWindow(Seq(page(3, 0), page(5, 1)), (4L to 9L).map(part))

  private def page(epoch: Long, partition: Int): PageRef = {
    val name = CutLayout.page(epoch, f"${partition + 1}%032x")
    PageRef(name, 300L, 7, 10, StoreId(0, partition, "default"))
  }

  private def part(epoch: Long): WindowPart =
    WindowPart(s"segments/$epoch", epoch, SegmentEnd(100L, 50, 3), Counted.All)

  test("new pages replace those of their stores, and the window begins after the oldest page") {
    val turned = window.withPages(WrittenPages(8, Seq(Some(page(3, 0)) -> Seq(page(8, 0)))), 0L)
    assert(turned.pages == Seq(page(8, 0), page(5, 1)))
    assert(turned.parts.map(_.epoch) == (6L to 9L))
  }

  test("the first pages are those of all stores") {
    val first = CutWindow(Nil, window.parts)
    val turned = first.withPages(WrittenPages(8, Seq(None -> window.pages)), 0L)
    assert(turned.pages == window.pages && turned.parts.map(_.epoch) == (4L to 9L))
  }

  test("pages of another window are ignored") {
    val others = Seq(Some(page(4, 0)) -> Seq(page(8, 0)))
    assert(window.withPages(WrittenPages(8, others), 0L) eq window)
    assert(window.withPages(WrittenPages(8, Seq(None -> Seq(page(8, 0)))), 0L) eq window)
  }

  test("pages that are too late are ignored") {
    val late = WrittenPages(8, Seq(Some(page(3, 0)) -> Seq(page(8, 0))))
    assert(window.withPages(late, 9L) eq window)
  }

  test("pages that were written before an operation are in none of its cuts") {
    val ledger = new QueryLedger(committed = 7L, cut = None)
    ledger.recordPages(WrittenPages(7, Seq(None -> window.pages)))
    ledger.replace(8L, Set(StoreId(0, 0, "default")))
    assert(ledger.turn()._1 == CutWindow(Nil, Nil))
  }
}
