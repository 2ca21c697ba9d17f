package io.cleancut.cutstore

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.error.Errors
import io.cleancut.format.{Chains, Channels, FrameKind, PackedChain, StoreCut, StoreOrder}
import io.cleancut.format.cut.{Cut, CutPage, PageRef, WindowPart}

/**
 * A cut or seal as it was read. Its chains are put together when they are asked for, from the pages
 * and tables that it names.
 *
 * @param head
 *   all but the chains of stores
 * @param path
 *   for messages
 */
final class StoredCut(val head: Cut, path: String, parts: CutParts) {
  import Chains.Frame

  /** What a store is made of. Costs its page and the tables of the window. */
  def of(store: StoreId): Option[StoreCut] =
    if (Channels.isChannel(store)) head.of(store)
    else {
      val page = paged.pageOf(store)
      val window = paged.window.filter(_.epoch > page.fold(-1L)(_.epoch))
      parts.fetch(page.toSeq, window)
      val frames = page.toSeq.flatMap(pageOf(_).of(store)) ++ window.flatMap(counted(_, store))
      Option.when(frames.nonEmpty)(chain(store, frames))
    }

  /** The same with all its chains. */
  def whole: Cut = {
    parts.fetch(paged.pages, paged.window)
    val found = mutable.HashMap.empty[StoreId, (Long, Seq[Frame])]
    for (ref <- paged.pages) {
      val page = pageOf(ref)
      page.stores.foreach(store => found(store) = (ref.epoch, page.of(store)))
    }
    val chains = withWindow(found, store => paged.pageOf(store).fold(-1L)(_.epoch))
    if (chains.size != paged.storeCount) {
      damaged(s"it has ${paged.storeCount} stores, and its pages and segments ${chains.size}")
    }
    head.copy(stores = (chains ++ head.stores).sortBy(_.store)(StoreOrder))
  }

  /**
   * A seal with all its chains.
   *
   * @param before
   *   the cut before its epoch
   */
  def after(before: Option[Cut]): Cut = {
    val sealedFrames = mutable.HashMap.empty[StoreId, (Long, Seq[Frame])]
    val chains = withWindow(sealedFrames, _ => -1L, before)
    if (chains.size != paged.storeCount) {
      damaged(s"it has ${paged.storeCount} stores, and its segments ${chains.size}")
    }
    head.copy(stores = (chains ++ head.stores).sortBy(_.store)(StoreOrder))
  }

  /** The names of the segments that it needs. */
  def segments: Set[String] =
    head.segments.toSet ++ head.referred.flatMap(_.segments) ++
      paged.pages.flatMap(pageOf(_).segments) ++ paged.window.map(_.segment)

  /** The names of its pages. */
  def pages: Seq[String] = paged.pages.map(_.name)

  /** What it takes of memory, about. */
  def sizeBytes: Long = StoredCut.HeadBytes + head.commit.length + head.offsets.length +
    head.stores.iterator.map(_.frames.size.toLong).sum * StoredCut.FrameBytes +
    (paged.pages.size + paged.window.size).toLong * StoredCut.FrameBytes

  private def paged = head.paged

  private def withWindow(
      found: mutable.Map[StoreId, (Long, Seq[Frame])],
      epochOf: StoreId => Long,
      before: Option[Cut] = None
  ): Seq[StoreCut] = {
    for (part <- paged.window; (store, frames) <- parts.table(part).all) {
      val (epoch, known) = found.getOrElse(store, (epochOf(store), Nil))
      if (part.epoch > epoch) {
        val added = frames.filter(frame => part.counted(frame._3.offset))
        if (added.nonEmpty) found(store) = (epoch, known ++ checked(part, store, added))
      }
    }
    found.iterator.map { case (store, (_, frames)) =>
      val earlier = before.flatMap(_.of(store)).fold(Seq.empty[Frame])(_.frames)
      chain(store, earlier ++ frames)
    }.toSeq
  }

  private def counted(part: WindowPart, store: StoreId): Seq[Frame] =
    checked(part, store, parts.table(part).of(store).filter(of => part.counted(of._3.offset)))

  /** A delta that an epoch adopts is of that epoch, and a base of no later one. */
  private def checked(part: WindowPart, store: StoreId, frames: Seq[Frame]): Seq[Frame] = {
    frames.foreach { case (kind, version, _) =>
      val isOfEpoch = version.number == part.epoch + 1 ||
        (kind == FrameKind.Base && version.number <= part.epoch)
      if (!isOfEpoch) {
        damaged(s"it adopts version $version of $store from ${part.segment} in epoch ${part.epoch}")
      }
    }
    frames
  }

  private def pageOf(ref: PageRef): CutPage = {
    val page = parts.page(ref)
    val next = paged.pages.lift(paged.pages.indexOf(ref) + 1)
    next.filter(of => StoreOrder.gteq(page.stores.last, of.first)).foreach { of =>
      throw Errors.cutCorrupted(ref.name, s"it reaches into ${of.name}, which the cut names next")
    }
    page
  }

  private def chain(store: StoreId, frames: Seq[Frame]): StoreCut =
    try {
      val found = Chains.of(store, head.epoch, frames)
      StoreCut(store, PackedChain.of(found.frames))
    } catch { case e: IllegalArgumentException => damaged(e.getMessage) }

  private def damaged(detail: String): Nothing = throw Errors.cutCorrupted(path, detail)
}

private object StoredCut {
  private val HeadBytes = 4096L
  private val FrameBytes = 256L
}
