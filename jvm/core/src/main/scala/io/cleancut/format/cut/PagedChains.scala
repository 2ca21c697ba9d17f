package io.cleancut.format.cut

import java.util.Arrays

import io.cleancut.base.StoreId
import io.cleancut.format.{CutLayout, SegmentEnd, StoreOrder}

/**
 * References to the chains of a cut. See `docs/FORMAT.md`, "Cut".
 *
 * @param storeCount
 *   number of stores without shuffle inputs
 * @param pages
 *   ascending by their first stores; the first page also has stores before its first one
 * @param window
 *   ascending by epoch: frames that are in no page
 */
final case class PagedChains(storeCount: Int, pages: Seq[PageRef], window: Seq[WindowPart]) {

  /** The page that may contain a store. */
  def pageOf(store: StoreId): Option[PageRef] = {
    val after = pages.indexWhere(page => StoreOrder.gt(page.first, store))
    if (after < 0) pages.lastOption else pages.lift(Math.max(after - 1, 0))
  }
}

object PagedChains {
  val Empty: PagedChains = PagedChains(storeCount = 0, pages = Nil, window = Nil)
}

/**
 * A reference to a page.
 *
 * @param name
 *   object name below the root
 * @param length
 *   length of the object in bytes
 * @param crc
 *   CRC-32 of its bytes
 * @param stores
 *   number of its stores
 */
final case class PageRef(name: String, length: Long, crc: Int, stores: Int, first: StoreId) {

  /** The epoch after which it is complete. */
  val epoch: Long = CutLayout
    .parsePage(name)
    .getOrElse(throw new IllegalArgumentException(s"$name is not the name of a page"))
}

/**
 * The frames of one segment that a cut was the first to reference.
 *
 * @param epoch
 *   epoch of that cut
 * @param end
 *   end of the segment
 */
final case class WindowPart(segment: String, epoch: Long, end: SegmentEnd, counted: Counted)

/** The frames of a segment that count, by offset, without those of shuffle inputs. */
sealed trait Counted {
  def apply(offset: Long): Boolean

  /** The listed offsets, whether their frames count or not. */
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

  /** @param offsets offsets of frames that do not count, ascending */
  final case class Except(offsets: Seq[Long]) extends Counted {
    private lazy val sorted = offsets.toArray
    override def apply(offset: Long): Boolean = Arrays.binarySearch(sorted, offset) < 0
  }
}
