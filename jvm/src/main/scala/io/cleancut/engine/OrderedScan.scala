package io.cleancut.engine

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
 * The rows of a scan whose places do not tell their whole order: they are looked at when the scan
 * is opened, and sorted.
 */
final class SortedScan(table: Table, order: KeyOrder, rows: RecordScan) extends RecordScan {
  private val sorted = {
    val all = Vector.newBuilder[Long]
    while (rows.advance()) all += rows.address
    all.result().sortWith((a, b) => isBefore(keyAt(a), keyAt(b)))
  }
  private var at = -1

  override def advance(): Boolean = {
    at += 1
    at < sorted.size
  }

  override def address: Long = sorted(at)

  private def keyAt(address: Long): Bytes = table.keyAt(address, new Bytes)

  private def isBefore(a: Bytes, b: Bytes): Boolean = {
    val first = order.placeOf(a)
    val byPlace = first.compareTo(order.placeOf(b))
    if (byPlace != 0) byPlace < 0 else order.compare(a, b) < 0
  }
}
