package io.cleancut.engine

import io.cleancut.engine.memory.{KeyHash, Memory}

/**
 * The rows of a version in the order of their keys' hashes. A base in this order fills the hash
 * index of its reader from front to back without cache misses, and has the rows of one hash in one
 * place.
 *
 * Sorting takes 16 bytes of heap per row. Beyond [[HashOrder.RunRows]] rows, the log is read
 * several times, and each pass sorts the rows of one range of hashes.
 */
final class HashOrder(
    memory: Memory,
    view: PagedLog.View,
    version: Table.Mark,
    runRows: Int = HashOrder.RunRows
) {

  /** Visits hash and address of every record. May run in any thread that holds the log. */
  def foreach(visit: (Int, Long) => Unit): Unit = {
    val runs = (version.keys + runRows - 1) / runRows
    // Hashes are uniformly distributed, so all runs have about the same number of rows.
    val width = ((1L << 32) + Math.max(runs, 1L) - 1) / Math.max(runs, 1L)
    var visited = 0L
    for (run <- 0L until runs) visited += sortRun(run * width, (run + 1) * width, visit)
    require(visited == version.keys, s"the log has $visited rows, ${version.keys} were counted")
  }

  /** Visits the rows with hashes in [`from`, `until`), and returns their number. */
  private def sortRun(from: Long, until: Long, visit: (Int, Long) => Unit): Long = {
    val rows = new TableSnapshot(memory, view, version.end)
    var entries = new Array[Long](Math.min(version.keys, runRows + runRows / 8L).toInt)
    var count = 0
    while (rows.advance()) {
      val key = Record.keyAddress(rows.address)
      val hash = KeyHash.hash32(memory, null, key, Record.keyLength(memory, rows.address))
      val unsigned = Integer.toUnsignedLong(hash)
      if (unsigned >= from && unsigned < until) {
        if (count == entries.length)
          entries = java.util.Arrays.copyOf(entries, count + count / 2 + 1)
        entries(count) = (hash.toLong << 32) | (rows.ref & 0xffffffffL)
        count += 1
      }
    }
    HashOrder.sortByUpperHalf(entries, count).foreach { entry =>
      visit((entry >>> 32).toInt, view.address(entry.toInt))
    }
    count.toLong
  }
}

object HashOrder {
  val RunRows: Int = 4 << 20

  // A radix sort in three passes of eleven bits covers the 32 bits of a hash.
  private val Passes = 3
  private val DigitBits = 11
  private val Digits = 1 << DigitBits

  /** Sorts the first `count` entries by their upper 32 bits as unsigned numbers. */
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
