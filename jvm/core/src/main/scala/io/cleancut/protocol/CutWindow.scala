package io.cleancut.protocol

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, PackedChain, StoreCut}
import io.cleancut.format.cut.{Cut, PageRef, PagedChains, WindowPart}

/**
 * What a cut can name in the place of its chains. Immutable.
 *
 * @param pages
 *   as in [[PagedChains]]
 * @param parts
 *   what the epochs after the oldest page have named first
 */
final private[cleancut] case class CutWindow(pages: Seq[PageRef], parts: Seq[WindowPart]) {

  /** Where the chains of these stores are. */
  def paged(stores: Seq[StoreCut]): PagedChains =
    PagedChains(CutWindow.held(stores).size, pages, parts)

  /** The window of the next epoch, with what that names first. */
  def and(first: Seq[WindowPart]): CutWindow = copy(parts = parts ++ first)

  /**
   * The same with pages in the place of others, unless these are not its own any more.
   *
   * @param oldest
   *   pages of earlier epochs may have been swept
   */
  def turned(by: WrittenPages, oldest: Long): CutWindow = {
    val replaced = by.pages.flatMap(_._1)
    val isOwn = if (replaced.isEmpty) pages.isEmpty else replaced.forall(pages.contains)
    if (!isOwn || by.epoch < oldest) this
    else {
      val turned = by.pages.collect { case (Some(old), of) => old -> of }.toMap
      val all =
        if (replaced.isEmpty) by.pages.flatMap(_._2)
        else pages.flatMap(page => turned.getOrElse(page, Seq(page)))
      copy(all, parts.filter(_.epoch > all.iterator.map(_.epoch).min))
    }
  }
}

private[cleancut] object CutWindow {

  /** After a cut. */
  def after(cut: Option[Cut]): CutWindow =
    cut.fold(CutWindow(Nil, Nil))(of => CutWindow(of.paged.pages, of.paged.window))

  /** The offsets of frames that an epoch is the first to name, ascending, by their segments. */
  def first(stores: Seq[StoreCut], before: Option[Cut]): Map[String, Seq[Long]] = {
    val places = held(stores).flatMap { of =>
      val chain = PackedChain.of(of.frames)
      val isAdopted = chain.size > 1 && isNewBase(chain, before.flatMap(_.of(of.store)))
      chain.last._3 +: Option.when(isAdopted)(chain.head._3).toSeq
    }
    places.groupMap(_.segment)(_.offset).map { case (segment, of) =>
      segment -> of.toArray.sorted.toSeq
    }
  }

  /** Whether a chain begins with a base that the chain before it does not begin with. */
  def isNewBase(chain: PackedChain, before: Option[StoreCut]): Boolean =
    chain.base.isDefined && !before.exists(of => PackedChain.of(of.frames).beginsAs(chain))

  def held(stores: Seq[StoreCut]): Seq[StoreCut] =
    stores.filterNot(of => Channels.isChannel(of.store))
}

/**
 * Pages that are written.
 *
 * @param moved
 *   the chains in them whose frames have got other places
 */
final private[cleancut] case class WrittenPages(
    epoch: Long,
    pages: Seq[(Option[PageRef], Seq[PageRef])],
    moved: Map[StoreId, PackedChain] = Map.empty
)
