package io.cleancut.protocol

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, PackedChain, StoreCut}
import io.cleancut.format.cut.{Cut, PageRef, PagedChains, WindowPart}

/**
 * The references that a cut can contain instead of its chains. Immutable.
 *
 * @param pages
 *   pages, as in [[PagedChains]]
 * @param parts
 *   frames that epochs after the oldest page were the first to reference
 */
final private[cleancut] case class CutWindow(pages: Seq[PageRef], parts: Seq[WindowPart]) {

  /** References to the chains of these stores. */
  def paged(stores: Seq[StoreCut]): PagedChains =
    PagedChains(CutWindow.held(stores).size, pages, parts)

  /** The window of the next epoch, with the frames that it is the first to reference. */
  def and(first: Seq[WindowPart]): CutWindow = copy(parts = parts ++ first)

  /**
   * The same window with replaced pages, unless it no longer has the replaced ones.
   *
   * @param oldest
   *   pages of earlier epochs may have been deleted
   */
  def withPages(by: WrittenPages, oldest: Long): CutWindow = {
    val replaced = by.pages.flatMap(_._1)
    val isOwn = if (replaced.isEmpty) pages.isEmpty else replaced.forall(pages.contains)
    if (!isOwn || by.epoch < oldest) this
    else {
      val newPages = by.pages.collect { case (Some(old), page) => old -> page }.toMap
      val all =
        if (replaced.isEmpty) by.pages.flatMap(_._2)
        else pages.flatMap(page => newPages.getOrElse(page, Seq(page)))
      copy(all, parts.filter(_.epoch > all.iterator.map(_.epoch).min))
    }
  }
}

private[cleancut] object CutWindow {

  /** The window after a cut. */
  def after(cut: Option[Cut]): CutWindow =
    cut.fold(CutWindow(Nil, Nil))(stored => CutWindow(stored.paged.pages, stored.paged.window))

  /** The offsets of frames that an epoch is the first to reference, ascending, by segment. */
  def first(stores: Seq[StoreCut], before: Option[Cut]): Map[String, Seq[Long]] = {
    val places = held(stores).flatMap { store =>
      val chain = PackedChain.of(store.frames)
      val isAdopted = chain.size > 1 && isNewBase(chain, before.flatMap(_.of(store.store)))
      chain.last._3 +: Option.when(isAdopted)(chain.head._3).toSeq
    }
    places.groupMap(_.segment)(_.offset).map { case (segment, offsets) =>
      segment -> offsets.toArray.sorted.toSeq
    }
  }

  /** Whether a chain begins with another base than the previous chain. */
  def isNewBase(chain: PackedChain, before: Option[StoreCut]): Boolean =
    chain.base.isDefined && !before.exists(store => PackedChain.of(store.frames).beginsAs(chain))

  def held(stores: Seq[StoreCut]): Seq[StoreCut] =
    stores.filterNot(store => Channels.isChannel(store.store))
}

/**
 * Pages that are written.
 *
 * @param moved
 *   chains in them whose frames were moved
 */
final private[cleancut] case class WrittenPages(
    epoch: Long,
    pages: Seq[(Option[PageRef], Seq[PageRef])],
    moved: Map[StoreId, PackedChain] = Map.empty
)
