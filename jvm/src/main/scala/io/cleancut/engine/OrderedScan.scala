package io.cleancut.engine

import scala.collection.mutable

/**
 * The newest record of each key from one place of the order to another, as a reader with `bound`
 * sees them. Refs are fetched from the index in pieces, each continuing after the last one, so that
 * the caller may put and remove while the scan is open; the scan does not show it.
 *
 * @param to
 *   the end, exclusive, or null for the end of the family
 */
final class OrderedScan(table: Table, index: OrderedIndex, from: Place, to: Place, bound: Int)
    extends RecordScan {
  private val piece = new Array[Int](OrderedScan.Piece)
  private val key = new Bytes
  private var filled = index.fill(from, to, piece)
  private var at = 0
  private var found = 0L

  override def advance(): Boolean = {
    found = 0L
    while (found == 0L && hasRef) {
      val ref = piece(at)
      at += 1
      // What was appended later is no part of the version, and an abort may take its memory away.
      if (Integer.compareUnsigned(ref, bound) < 0) found = table.find(table.keyOf(ref, key), bound)
    }
    found != 0L
  }

  override def address: Long = found

  private def hasRef: Boolean = {
    if (at == filled && filled == piece.length) {
      filled = index.fill(from, to, piece)
      at = 0
    }
    at < filled
  }
}

object OrderedScan {
  private val Piece = 64
}

/**
 * The rows of a scan whose places do not tell their whole order: those of one place are sorted when
 * the scan comes to them.
 */
final class TieSortedScan(table: Table, order: KeyOrder, rows: RecordScan) extends RecordScan {
  private val tied = mutable.ArrayBuffer.empty[Long]
  private val upcoming = new Bytes
  private val left = new Bytes
  private val right = new Bytes
  private var hasUpcoming = rows.advance()
  private var at = 0

  override def advance(): Boolean = {
    at += 1
    if (at >= tied.size) {
      tied.clear()
      at = 0
      if (hasUpcoming) takeTied()
    }
    tied.nonEmpty
  }

  override def address: Long = tied(at)

  private def takeTied(): Unit = {
    val place = order.placeOf(table.keyAt(rows.address, upcoming))
    do {
      tied += rows.address
      hasUpcoming = rows.advance()
    } while (hasUpcoming && isAt(place))
    if (tied.size > 1) tied.sortInPlaceWith(isBefore)
  }

  private def isAt(place: Place): Boolean =
    order.placeOf(table.keyAt(rows.address, upcoming)).compareTo(place) == 0

  private def isBefore(a: Long, b: Long): Boolean =
    order.compare(table.keyAt(a, left), table.keyAt(b, right)) < 0
}
