package io.cleancut.engine

/**
 * The rows of one rank, as a reader with `bound` sees them. Refs are fetched from the index in
 * pieces, each continuing after the last one, so that the caller may put and remove while the scan
 * is open.
 */
final class RankScan(memory: Memory, table: Table, index: OrderedIndex, rank: Long, bound: Int) {
  private val piece = new Array[Int](RankScan.Piece)
  private val key = new Bytes
  private var filled = index.refsOf(rank, 0, piece)
  private var at = 0
  private var found = 0L

  /** Moves to the next row; false at the end. */
  def advance(): Boolean = {
    found = 0L
    while (found == 0L && hasRef) {
      val first = table.address(piece(at))
      at += 1
      key.pointTo(null, Record.keyAddress(first), Record.keyLength(memory, first))
      found = table.find(key, bound)
    }
    found != 0L
  }

  /** Address of the record that [[advance]] moved to. */
  def address: Long = found

  private def hasRef: Boolean = {
    if (at == filled && filled == piece.length) {
      filled = index.refsOf(rank, piece(at - 1), piece)
      at = 0
    }
    // What was appended later is no part of the version, and an abort may take its memory away.
    at < filled && Integer.compareUnsigned(piece(at), bound) < 0
  }
}

object RankScan {
  private val Piece = 64
}
