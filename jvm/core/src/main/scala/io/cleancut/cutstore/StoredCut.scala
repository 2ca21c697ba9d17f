package io.cleancut.cutstore

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.error.Errors
import io.cleancut.format.{Chains, Channels, PackedChain, StoreCut, StoreOrder}
import io.cleancut.format.cut.{Cut, CutPage, PageRef, WindowPart}

/**
 * A stored cut or seal. Its chains are assembled on request from the pages and tables that it
 * references.
 *
 * @param head
 *   the cut without chains of stores
 * @param path
 *   path for messages
 */
final class StoredCut(val head: Cut, path: String, parts: CutParts) {
  import Chains.Frame

  /** The chain of a store. Reads its page and the tables of the window. */
  def of(store: StoreId): Option[StoreCut] =
    if (Channels.isChannel(store)) head.of(store)
    else {
      val page = paged.pageOf(store)
      val window = paged.window.filter(_.epoch > page.fold(-1L)(_.epoch))
      parts.fetch(page.toSeq, window)
      val frames = page.toSeq.flatMap(pageOf(_).of(store)) ++ window.flatMap(counted(_, store))
      Option.when(frames.nonEmpty)(chain(store, frames))
    }

  /** Reads all pages and tables that it references, if they are cached. */
  def fetch(): Unit = parts.fetch(paged.pages, paged.window)

  /** The same cut with all its chains. */
  def whole: Cut = {
    fetch()
    val byStore = mutable.HashMap.empty[StoreId, (Long, Seq[Frame])]
    for (ref <- paged.pages) {
      val page = pageOf(ref)
      page.stores.foreach(store => byStore(store) = (ref.epoch, page.of(store)))
    }
    val chains = withWindow(byStore, store => paged.pageOf(store).fold(-1L)(_.epoch))
    if (chains.size != paged.storeCount) {
      damaged(s"it has ${paged.storeCount} stores, but its pages and segments have ${chains.size}")
    }
    head.copy(stores = (chains ++ head.stores).sortBy(_.store)(StoreOrder))
  }

  /**
   * A seal with all its chains.
   *
   * @param before
   *   the previous cut
   */
  def after(before: Option[Cut]): Cut = {
    val sealedFrames = mutable.HashMap.empty[StoreId, (Long, Seq[Frame])]
    val chains = withWindow(sealedFrames, _ => -1L, before)
    if (chains.size != paged.storeCount) {
      damaged(s"it has ${paged.storeCount} stores, but its segments have ${chains.size}")
    }
    head.copy(stores = (chains ++ head.stores).sortBy(_.store)(StoreOrder))
  }

  /** The names of the segments that it references. */
  def segments: Set[String] =
    head.segments.toSet ++ head.referred.flatMap(_.segments) ++
      paged.pages.flatMap(pageOf(_).segments) ++ paged.window.map(_.segment)

  /** The names of its pages. */
  def pages: Seq[String] = paged.pages.map(_.name)

  /** Approximate size in memory. */
  def sizeBytes: Long = StoredCut.HeadBytes + head.commit.length + head.offsets.length +
    head.stores.iterator.map(_.frames.size.toLong).sum * StoredCut.FrameBytes +
    (paged.pages.size + paged.window.size).toLong * StoredCut.FrameBytes

  private def paged = head.paged

  private def withWindow(
      byStore: mutable.Map[StoreId, (Long, Seq[Frame])],
      epochOf: StoreId => Long,
      before: Option[Cut] = None
  ): Seq[StoreCut] = {
    for (part <- paged.window; (store, frames) <- parts.table(part).all) {
      val (epoch, known) = byStore.getOrElse(store, (epochOf(store), Nil))
      if (part.epoch > epoch) {
        val added = frames.filter(frame => part.counted(frame._3.offset))
        if (added.nonEmpty) byStore(store) = (epoch, known ++ added)
      }
    }
    byStore.iterator.map { case (store, (_, frames)) =>
      val earlier = before.flatMap(_.of(store)).fold(Seq.empty[Frame])(_.frames)
      chain(store, earlier ++ frames)
    }.toSeq
  }

  private def counted(part: WindowPart, store: StoreId): Seq[Frame] =
    parts.table(part).of(store).filter(frame => part.counted(frame._3.offset))

  private def pageOf(ref: PageRef): CutPage = {
    val page = parts.page(ref)
    val next = paged.pages.lift(paged.pages.indexOf(ref) + 1)
    next.filter(following => StoreOrder.gteq(page.stores.last, following.first)).foreach {
      following =>
        throw Errors.cutCorrupted(ref.name, s"it overlaps the next page ${following.name}")
    }
    page
  }

  private def chain(store: StoreId, frames: Seq[Frame]): StoreCut =
    try {
      val complete = Chains.of(store, head.epoch, frames)
      StoreCut(store, PackedChain.of(complete.frames))
    } catch { case e: IllegalArgumentException => damaged(e.getMessage) }

  private def damaged(detail: String): Nothing = throw Errors.cutCorrupted(path, detail)
}

private object StoredCut {
  private val HeadBytes = 4096L
  private val FrameBytes = 256L
}
