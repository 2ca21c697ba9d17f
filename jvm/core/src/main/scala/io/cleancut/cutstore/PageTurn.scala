package io.cleancut.cutstore

import io.cleancut.protocol.{CutWindow, WrittenPages}
import io.cleancut.format.{PackedChain, StoreCut, StoreOrder}
import io.cleancut.format.cut.{Cut, PageRef}

/**
 * When pages are rewritten, and their size.
 *
 * @param storesPerPage
 *   approximate number of stores in a page
 * @param epochs
 *   number of epochs after which a page is due
 * @param longEpochs
 *   number of epochs in which all pages are rewritten once, if there are more than `epochs` pages
 */
final case class Paging(storesPerPage: Int, epochs: Int, longEpochs: Int) {

  /** The pages to write after a cut, if any. */
  private[cleancut] def due(window: CutWindow, cut: Cut): Option[PageTurn] = {
    // No pages so far, and none for a query without stores, which has no part either.
    val first = window.parts.iterator.map(_.epoch).minOption
    if (window.pages.nonEmpty) some(window.pages, cut)
    else
      Option.when(first.exists(cut.epoch - _ >= epochs - 1)) {
        PageTurn(cut.epoch, Seq(None -> split(ordered(cut))))
      }
  }

  private def ordered(cut: Cut): Seq[StoreCut] =
    CutWindow.held(cut.stores).sortBy(_.store)(StoreOrder)

  private def some(pages: Seq[PageRef], cut: Cut): Option[PageTurn] = {
    val epoch = cut.epoch
    val cycle = if (pages.size > epochs) longEpochs else epochs
    val atOnce = (pages.size + cycle - 1) / cycle
    val old = pages.filter(epoch - _.epoch >= epochs).sortBy(_.epoch).take(atOnce).toSet
    Option.when(old.nonEmpty) {
      val ends = pages.drop(1).map(page => Option(page.first)) :+ None
      var rest = ordered(cut)
      val turned = pages.zip(ends).flatMap { case (page, end) =>
        val (stores, others) = rest.span(of => end.forall(StoreOrder.lt(of.store, _)))
        rest = others
        Option.when(old(page))(Some(page) -> split(stores))
      }
      PageTurn(epoch, turned)
    }
  }

  /** Splits stores evenly into parts of at most about the page size. */
  private def split(stores: Seq[StoreCut]): Seq[Seq[StoreCut]] = {
    val count = Math.max(1, Math.round(stores.size.toDouble / storesPerPage).toInt)
    stores.grouped((stores.size + count - 1) / count).toSeq
  }
}

object Paging {
  private val StoresPerPage = 1000
  private val Epochs = 8
  private val LongEpochs = 16

  val Default: Paging = Paging(StoresPerPage, Epochs, LongEpochs)
}

/**
 * Pages to write.
 *
 * @param epoch
 *   epoch after which they are complete
 * @param chains
 *   chains of each new page, with the page that it replaces; None if they replace all pages
 */
final private[cleancut] case class PageTurn(
    epoch: Long,
    chains: Seq[(Option[PageRef], Seq[Seq[StoreCut]])]
) {

  /** Writes the pages, which are not referenced yet. */
  def write(archive: CutArchive): WrittenPages =
    WrittenPages(
      epoch,
      chains.map { case (old, replacement) => old -> archive.pages.write(epoch, replacement) }
    )

  /** The same with merged frames. */
  def merged(merge: FrameMerge, archive: CutArchive): WrittenPages = {
    val near = chains.map { case (old, stores) => old -> stores.map(merge(epoch, _)) }
    val before = chains.flatMap(_._2.flatten)
    val moved = before.zip(near.flatMap(_._2.flatten)).collect {
      case (was, is) if was ne is => is.store -> PackedChain.of(is.frames)
    }
    copy(chains = near).write(archive).copy(moved = moved.toMap)
  }
}
