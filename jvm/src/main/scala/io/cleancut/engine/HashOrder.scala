package io.cleancut.engine

/**
 * The rows of a version in the order of their keys' hashes, in sorted runs of at most
 * [[HashOrder.RunRows]]. A base that is written so fills the hash index of its reader from front to
 * back, once for each run, instead of missing the cache at every key. Sorting takes 16 bytes of
 * heap for each row of a run.
 */
final class HashOrder(memory: Memory, view: PagedLog.View, version: Table.Mark) {
  private val rows = new TableSnapshot(memory, view, version.end)
  private val runRows = Math.min(version.keys, HashOrder.RunRows.toLong).toInt

  /** Visits the address of every record. May run in any thread that holds the log. */
  def foreach(visit: Long => Unit): Unit = {
    val run = new Array[Long](runRows)
    var rest = version.keys
    while (rest > 0) {
      val count = Math.min(rest, runRows.toLong).toInt
      fill(run, count)
      HashOrder.sortByUpperHalf(run, count).foreach(entry => visit(view.address(entry.toInt)))
      rest -= count
    }
  }

  private def fill(run: Array[Long], count: Int): Unit = {
    var i = 0
    while (i < count) {
      require(rows.advance(), s"the log holds fewer rows than the ${version.keys} counted")
      val key = Record.keyAddress(rows.address)
      val hash = KeyHash.hash32(memory, null, key, Record.keyLength(memory, rows.address))
      run(i) = (hash.toLong << 32) | (rows.ref & 0xffffffffL)
      i += 1
    }
  }
}

object HashOrder {
  private val RunRows = 4 << 20

  // A radix sort in three passes of eleven bits covers the 32 bits of a hash.
  private val Passes = 3
  private val DigitBits = 11
  private val Digits = 1 << DigitBits

  /** The first `count` entries, sorted by their upper 32 bits taken as unsigned. */
  private[engine] def sortByUpperHalf(entries: Array[Long], count: Int): Array[Long] = {
    var from = java.util.Arrays.copyOf(entries, count)
    var to = new Array[Long](count)
    for (pass <- 0 until Passes) {
      distribute(from, to, 32 + pass * DigitBits)
      val sorted = to
      to = from
      from = sorted
    }
    from
  }

  private def distribute(from: Array[Long], to: Array[Long], shift: Int): Unit = {
    val next = new Array[Int](Digits + 1)
    var i = 0
    while (i < from.length) {
      next(digit(from(i), shift) + 1) += 1
      i += 1
    }
    for (d <- 0 until Digits) next(d + 1) += next(d)
    i = 0
    while (i < from.length) {
      val d = digit(from(i), shift)
      to(next(d)) = from(i)
      next(d) += 1
      i += 1
    }
  }

  private def digit(entry: Long, shift: Int): Int = (entry >>> shift).toInt & (Digits - 1)
}
