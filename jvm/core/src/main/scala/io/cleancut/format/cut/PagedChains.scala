package io.cleancut.format.cut

import java.util.Arrays

import io.cleancut.base.StoreId
import io.cleancut.format.{CutLayout, SegmentEnd, StoreOrder}

/**
 * Where the chains of a cut are to be found. See `docs/FORMAT.md`, "Cut".
 *
 * @param storeCount
 *   channels aside
 * @param pages
 *   ascending by their first stores; the first also has what comes before its own
 * @param window
 *   ascending by their epochs: what no page has
 */
final case class PagedChains(storeCount: Int, pages: Seq[PageRef], window: Seq[WindowPart]) {

  /** The page that may have a store. */
  def pageOf(store: StoreId): Option[PageRef] = {
    val after = pages.indexWhere(page => StoreOrder.gt(page.first, store))
    if (after < 0) pages.lastOption else pages.lift(Math.max(after - 1, 0))
  }
}

object PagedChains {
  val Empty: PagedChains = PagedChains(storeCount = 0, pages = Nil, window = Nil)
}

/**
 * @param name
 *   of the object below the root
 * @param length
 *   of the object, in bytes
 * @param crc
 *   CRC-32 of its bytes
 * @param stores
 *   how many it has
 */
final case class PageRef(name: String, length: Long, crc: Int, stores: Int, first: StoreId) {

  /** That after which it is complete. */
  val epoch: Long = CutLayout
    .parsePage(name)
    .getOrElse(throw new IllegalArgumentException(s"$name is no name of a page"))
}

/**
 * The frames of one segment that a cut was the first to name.
 *
 * @param epoch
 *   of that cut
 * @param end
 *   of the segment
 */
final case class WindowPart(segment: String, epoch: Long, end: SegmentEnd, counted: Counted)

/** Which frames of a segment count, by their offsets; those of channels are passed over. */
sealed trait Counted {
  def apply(offset: Long): Boolean

  /** Those that are named, whether they count or not. */
  def offsets: Seq[Long]
}

object Counted {
  case object All extends Counted {
    override def apply(offset: Long): Boolean = true
    override def offsets: Seq[Long] = Nil
  }

  /** @param offsets ascending */
  final case class Only(offsets: Seq[Long]) extends Counted {
    private lazy val sorted = offsets.toArray
    override def apply(offset: Long): Boolean = Arrays.binarySearch(sorted, offset) >= 0
  }

  /** @param offsets ascending, of those that do not count */
  final case class Except(offsets: Seq[Long]) extends Counted {
    private lazy val sorted = offsets.toArray
    override def apply(offset: Long): Boolean = Arrays.binarySearch(sorted, offset) < 0
  }
}
