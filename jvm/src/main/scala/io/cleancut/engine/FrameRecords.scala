package io.cleancut.engine

import io.cleancut.format.{BlockScratch, FrameReader}

/**
 * The records of a frame, one after another. [[key]] and [[value]] point into the scratch and hold
 * until the next record.
 */
final class FrameRecords(reader: FrameReader, scratch: BlockScratch) {
  val key = new Bytes
  val value = new Bytes

  private var found: Byte = 0
  private var familyId = 0
  private var raw: Array[Byte] = _
  private var position = 0
  private var limit = 0
  private var left = 0

  /** See [[RecordOperation]]. */
  def operation: Byte = found

  /** Id of the column family. */
  def family: Int = familyId

  /** Moves to the next record; false at the end of the frame. */
  def advance(): Boolean = {
    if (left == 0) nextBlock()
    val isThere = left > 0
    if (isThere) {
      left -= 1
      read()
    }
    isThere
  }

  private def nextBlock(): Unit = {
    if (position != limit) throw reader.damaged("a block holds more than its records")
    left = reader.nextBlock()
    raw = scratch.raw
    position = 0
    limit = if (left > 0) reader.rawLength else 0
  }

  private def read(): Unit = {
    found = nextByte()
    familyId = nextVarint()
    val keyLength = nextVarint()
    found match {
      case RecordOperation.Put | RecordOperation.Merge =>
        val valueLength = nextVarint()
        take(key, keyLength)
        take(value, valueLength)
      case RecordOperation.Remove if reader.identity.parent.isEmpty =>
        throw reader.damaged("a base holds a removal")
      case RecordOperation.Remove => take(key, keyLength)
      case unknown => throw reader.damaged(s"a record with unknown operation $unknown")
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
      if (shift > 28) throw reader.damaged("a number of more than five bytes")
      byte = nextByte()
    }
    result | (byte << shift)
  }

  private def overrun(): Throwable =
    reader.damaged("a record runs past the end of its block")
}
