package io.cleancut.engine

/**
 * The rows of a version in the order of their keys' hashes. A base that is written so is loaded without a
 * cache miss in the hash index. Finding the order takes 16 bytes of heap a row while it lasts.
 */
object HashOrder {

  /** Addresses of the version's records. May run in any thread that holds the log. */
  def apply(memory: Memory, view: PagedLog.View, version: Table.Mark): Iterator[Long] = {
    val entries = new Array[Long](Math.toIntExact(version.keys))
    val rows = new TableSnapshot(memory, view, version.end)
    var count = 0
    while (rows.advance()) {
      val address = rows.address
      val hash = KeyHash.hash32(
        memory,
        null,
        Record.keyAddress(address),
        Record.keyLength(memory, address))
      entries(count) = (hash.toLong << 32) | (rows.ref & 0xffffffffL)
      count += 1
    }
    require(count == entries.length, s"$count rows found where ${entries.length} keys were counted")
    sortByUpperHalf(entries).iterator.map(entry => view.address(entry.toInt))
  }

  /** Radix sort by the upper 32 bits, taken as unsigned: three passes of eleven bits. */
  private[engine] def sortByUpperHalf(entries: Array[Long]): Array[Long] = {
    var from = entries
    var to = new Array[Long](entries.length)
    for (pass <- 0 until Passes) {
      val shift = 32 + pass * DigitBits
      val starts = new Array[Int](Digits + 1)
      from.foreach(e => starts((e >>> shift).toInt.&(DigitMask) + 1) += 1)
      for (d <- 0 until Digits) starts(d + 1) += starts(d)
      var i = 0
      while (i < from.length) {
        val digit = (from(i) >>> shift).toInt & DigitMask
        to(starts(digit)) = from(i)
        starts(digit) += 1
        i += 1
      }
      val sorted = to
      to = from
      from = sorted
    }
    from
  }

  private val Passes = 3
  private val DigitBits = 11
  private val Digits = 1 << DigitBits
  private val DigitMask = Digits - 1
}
