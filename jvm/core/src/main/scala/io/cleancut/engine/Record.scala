package io.cleancut.engine

import io.cleancut.engine.memory.Memory

/**
 * The layout of a record in the log, 8-byte aligned:
 *
 * {{{
 *  0  next    u32  ref of the record that replaced this one, 0 while it is the newest
 *  4  prev    u32  ref of the record that this one replaced, 0 if it is the key's first
 *  8  key     i32  length of the key in bytes
 * 12  value   u32  length of the value in bytes (30 bits); bit 30: added to the values that `prev`
 *                  leads to; bit 31: it was added, and is the first; all bits: a removal
 * 16  key bytes, padded to 8; value bytes, padded to 8
 * }}}
 *
 * A reader at an older version, whose end is `bound`, sees the record of that version, because
 * later records have refs at or above `bound`. So one comparison of `next` decides, without the
 * index, whether a record is part of a version.
 */
object Record {
  val HeaderBytes: Int = 16
  val Removed: Int = -1

  /** The bound of a reader that sees everything. */
  val NoBound: Int = -1

  /** Flag in the value length of a record that adds a value to the values of its key. */
  val Added: Int = 1 << 30

  /** Flag in the value length of a record that added a value to a key without values. */
  val Begun: Int = 1 << 31

  private val PrevOffset = 4
  private val KeyLengthOffset = 8
  private val ValueLengthOffset = 12

  /** Bytes of a record; `valueLength` is a length or [[Removed]]. */
  def sizeBytes(keyLength: Int, valueLength: Int): Int =
    HeaderBytes + padded(keyLength) + padded(Math.max(valueLength, 0))

  def padded(length: Int): Int = (length + 7) & ~7

  def next(m: Memory, address: Long): Int = m.getInt(address)
  def prev(m: Memory, address: Long): Int = m.getInt(address + PrevOffset)
  def keyLength(m: Memory, address: Long): Int = m.getInt(address + KeyLengthOffset)

  /** Length of the value in bytes, or [[Removed]]. */
  def valueLength(m: Memory, address: Long): Int =
    lengthOf(m.getInt(address + ValueLengthOffset))

  /** The value length, or [[Removed]], in the value field of a header. */
  def lengthOf(valueField: Int): Int =
    if (valueField == Removed) Removed else valueField & ~(Added | Begun)

  /** Whether the key's values are this record's and those that [[prev]] leads to. */
  def isAdded(m: Memory, address: Long): Boolean = {
    val field = m.getInt(address + ValueLengthOffset)
    field != Removed && (field & Added) != 0
  }

  /** Whether the record added a value, and is the only one or the first of its key. */
  def isBegun(m: Memory, address: Long): Boolean = {
    val field = m.getInt(address + ValueLengthOffset)
    field != Removed && (field & Begun) != 0
  }

  def keyAddress(address: Long): Long = address + HeaderBytes

  def valueAddress(address: Long, keyLength: Int): Long =
    address + HeaderBytes + padded(keyLength)

  def setNext(m: Memory, address: Long, ref: Int): Unit = m.putInt(address, ref)
  def setPrev(m: Memory, address: Long, ref: Int): Unit = m.putInt(address + PrevOffset, ref)

  /** `valueField`: length of the value, with or without [[Added]] or [[Begun]], or [[Removed]]. */
  def setHeader(m: Memory, address: Long, prev: Int, keyLength: Int, valueField: Int): Unit = {
    m.putLong(address, (prev & 0xffffffffL) << 32)
    m.putInt(address + KeyLengthOffset, keyLength)
    m.putInt(address + ValueLengthOffset, valueField)
  }

  /** Bytes of the record at this address. */
  def sizeBytes(m: Memory, address: Long): Int =
    sizeBytes(keyLength(m, address), valueLength(m, address))

  /** Whether the record is the newest of its key for a reader with this bound. */
  def isNewest(m: Memory, address: Long, bound: Int): Boolean = {
    val replacedBy = next(m, address)
    replacedBy == 0 || Integer.compareUnsigned(replacedBy, bound) >= 0
  }

  /** Addresses of the records of a key's values, oldest first, given the newest of them. */
  def values(m: Memory, newest: Long)(addressOf: Int => Long): Array[Long] = {
    var count = 1
    var at = newest
    while (isAdded(m, at)) {
      at = addressOf(prev(m, at))
      count += 1
    }
    val addresses = new Array[Long](count)
    at = newest
    while (count > 1) {
      count -= 1
      addresses(count) = at
      at = addressOf(prev(m, at))
    }
    addresses(0) = at
    addresses
  }
}
