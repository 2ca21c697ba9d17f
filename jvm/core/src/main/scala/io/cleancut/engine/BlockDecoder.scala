package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory}

/**
 * Iterates over the records of one block. [[key]] and [[value]] point into the block and are valid
 * until the next record.
 *
 * @param damaged
 *   creates the error for a block that is no sequence of records
 * @param isBase
 *   whether the block is in a base, which has no removals
 */
final class BlockDecoder(damaged: String => Throwable, isBase: Boolean) {
  val key = new Bytes
  val value = new Bytes

  private var current: Byte = 0
  private var familyId = 0
  private var raw: Array[Byte] = _
  private var position = 0
  private var limit = 0
  private var left = 0

  /** See [[RecordOperation]]. */
  def operation: Byte = current

  /** ID of the column family. */
  def family: Int = familyId

  /** Continues with another block after the end of this one. */
  def begin(raw: Array[Byte], length: Int, records: Int): Unit = {
    this.raw = raw
    position = 0
    limit = length
    left = records
  }

  /** Moves to the next record; false at the end of the block. */
  def advance(): Boolean = {
    val hasRecord = left > 0
    if (hasRecord) {
      left -= 1
      read()
    } else if (position != limit) throw damaged("a block has bytes after its last record")
    hasRecord
  }

  private def read(): Unit = {
    current = nextByte()
    familyId = nextVarint()
    val keyLength = nextVarint()
    current match {
      case RecordOperation.Put | RecordOperation.Merge =>
        val valueLength = nextVarint()
        take(key, keyLength)
        take(value, valueLength)
      case RecordOperation.Remove if isBase => throw damaged("a base contains a removal")
      case RecordOperation.Remove           => take(key, keyLength)
      case unknown => throw damaged(s"a record with unknown operation $unknown")
    }
  }

  private def take(into: Bytes, length: Int): Unit = {
    if (length < 0 || length > limit - position) throw overrun()
    into.pointTo(raw, Memory.ByteArrayOffset + position, length)
    position += length
  }

  private def nextByte(): Byte = {
    if (position >= limit) throw overrun()
    position += 1
    raw(position - 1)
  }

  private def nextVarint(): Int = {
    var result = 0
    var shift = 0
    var byte = nextByte()
    while (byte < 0) {
      result |= (byte & 0x7f) << shift
      shift += 7
      if (shift > 28) throw damaged("a number of more than five bytes")
      byte = nextByte()
    }
    result | (byte << shift)
  }

  private def overrun(): Throwable = damaged("a record runs past the end of its block")
}
