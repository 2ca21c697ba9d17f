package io.cleancut.engine

import scala.collection.mutable

import io.cleancut.engine.memory.Bytes

/**
 * The newest record of each key between two places, as visible to a reader with `bound`. Entries
 * are fetched from the index in batches, each continuing after the last one, so the caller may put
 * and remove rows during the scan. The scan does not return these changes, because records below
 * the bound do not change.
 *
 * The records of a batch are looked up together, step by step, so that their memory accesses
 * overlap.
 *
 * @param to
 *   end of the scan, exclusive, or null for the end of the family
 */
final class OrderedScan(table: Table, index: OrderedIndex, from: Place, to: Place, bound: Int)
    extends RecordScan {
  private var piece = new OrderedEntries(OrderedScan.FirstPiece)
  private var records = new Array[Long](OrderedScan.FirstPiece)
  private var at = 0
  private var current = 0L
  fill()

  override def advance(): Boolean = {
    current = 0L
    while (current == 0L && hasRecord) {
      current = records(at)
      at += 1
    }
    current != 0L
  }

  override def address: Long = current

  private def hasRecord: Boolean = {
    if (at == piece.size && piece.isFull) {
      // Most scans return a few rows.
      if (records.length < OrderedScan.Piece) {
        piece = new OrderedEntries(OrderedScan.Piece)
        records = new Array[Long](OrderedScan.Piece)
      }
      fill()
    }
    at < piece.size
  }

  private def fill(): Unit = {
    index.fill(from, to, piece)
    table.findAll(piece, bound, records)
    at = 0
  }
}

object OrderedScan {
  private val FirstPiece = 16
  private val Piece = 64
}

/**
 * The rows of a scan whose places do not determine the complete order: rows with the same place are
 * sorted when the scan reaches them.
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

/** A pass over the newest records of some keys of a table. */
abstract class RecordScan {

  /** Moves to the next record; false at the end. */
  def advance(): Boolean

  /** Address of the record that [[advance]] moved to. */
  def address: Long
}

object RecordScan {
  object Empty extends RecordScan {
    override def advance(): Boolean = false
    override def address: Long = throw new NoSuchElementException("no record")
  }
}
