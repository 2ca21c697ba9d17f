package io.cleancut.engine

/**
 * How a record lies in the log, 8-byte aligned:
 *
 * {{{
 *  0  next    u32  ref of the record that replaced this one, 0 while it is the newest
 *  4  prev    u32  ref of the record that this one replaced, 0 if it is the key's first
 *  8  key     i32  length of the key in bytes
 * 12  value   i32  length of the value in bytes, -1 for a removal
 * 16  key bytes, padded to 8; value bytes, padded to 8
 * }}}
 *
 * A reader at an older version, whose end is `bound`, sees the record that it saw then: what was
 * appended since has a ref at or above `bound`. So `next` decides in one comparison, without the
 * index, whether a record is part of a version.
 */
object Record {
  val HeaderBytes: Int = 16
  val Removed: Int = -1

  /** The bound of a reader that sees everything. */
  val NoBound: Int = -1

  private val PrevOffset = 4
  private val KeyLengthOffset = 8
  private val ValueLengthOffset = 12

  def sizeBytes(keyLength: Int, valueLength: Int): Int =
    HeaderBytes + padded(keyLength) + padded(Math.max(valueLength, 0))

  def padded(length: Int): Int = (length + 7) & ~7

  def next(m: Memory, address: Long): Int = m.getInt(address)
  def prev(m: Memory, address: Long): Int = m.getInt(address + PrevOffset)
  def keyLength(m: Memory, address: Long): Int = m.getInt(address + KeyLengthOffset)
  def valueLength(m: Memory, address: Long): Int = m.getInt(address + ValueLengthOffset)
  def keyAddress(address: Long): Long = address + HeaderBytes

  def valueAddress(address: Long, keyLength: Int): Long =
    address + HeaderBytes + padded(keyLength)

  def setNext(m: Memory, address: Long, ref: Int): Unit = m.putInt(address, ref)

  def setHeader(m: Memory, address: Long, prev: Int, keyLength: Int, valueLength: Int): Unit = {
    m.putLong(address, (prev & 0xffffffffL) << 32)
    m.putInt(address + KeyLengthOffset, keyLength)
    m.putInt(address + ValueLengthOffset, valueLength)
  }

  /** Whether the record is the newest of its key for a reader with this bound. */
  def isNewest(m: Memory, address: Long, bound: Int): Boolean = {
    val replacedBy = next(m, address)
    replacedBy == 0 || Integer.compareUnsigned(replacedBy, bound) >= 0
  }
}
