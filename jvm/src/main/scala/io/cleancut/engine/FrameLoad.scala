package io.cleancut.engine

import io.cleancut.format.{BlockScratch, FrameReader, FrameTrailer}

/** Applies the records of a frame to a table, in order. */
final class FrameLoad(table: Table, family: Int) {
  private val key = new Bytes
  private val value = new Bytes
  private var raw: Array[Byte] = _
  private var position = 0
  private var limit = 0

  /** Reads the whole frame; afterwards the table must hold as many keys as the trailer says. */
  def apply(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    var count = reader.nextBlock()
    while (count > 0) {
      raw = scratch.raw
      position = 0
      limit = reader.rawLength
      var i = 0
      while (i < count) {
        applyRecord(reader)
        i += 1
      }
      if (position != limit) throw reader.damaged("a block holds more than its records")
      count = reader.nextBlock()
    }
    val trailer = reader.trailer
    if (table.keys != trailer.keys) {
      throw reader.damaged(
        s"the store holds ${table.keys} keys after it, the trailer says ${trailer.keys}"
      )
    }
    if (reader.identity.parent.isEmpty && trailer.records != trailer.keys) {
      throw reader.damaged(s"a base of ${trailer.keys} keys has ${trailer.records} records")
    }
    trailer
  }

  private def applyRecord(reader: FrameReader): Unit = {
    val operation = nextByte(reader)
    val foundFamily = nextVarint(reader)
    if (foundFamily != family) throw reader.damaged(s"a record of unknown family $foundFamily")
    val keyLength = nextVarint(reader)
    operation match {
      case RecordOperation.Put =>
        val valueLength = nextVarint(reader)
        take(key, keyLength, reader)
        take(value, valueLength, reader)
        table.put(key, value)
      case RecordOperation.Remove if reader.identity.parent.isEmpty =>
        throw reader.damaged("a base holds a removal")
      case RecordOperation.Remove =>
        take(key, keyLength, reader)
        table.remove(key)
        ()
      case unknown => throw reader.damaged(s"a record with unknown operation $unknown")
    }
  }

  private def take(into: Bytes, length: Int, reader: FrameReader): Unit = {
    if (length < 0 || length > limit - position) throw overrun(reader)
    into.pointTo(raw, Memory.ByteArrayOffset + position, length)
    position += length
  }

  private def nextByte(reader: FrameReader): Byte = {
    if (position >= limit) throw overrun(reader)
    position += 1
    raw(position - 1)
  }

  private def nextVarint(reader: FrameReader): Int = {
    var result = 0
    var shift = 0
    var byte = nextByte(reader)
    while (byte < 0) {
      result |= (byte & 0x7f) << shift
      shift += 7
      if (shift > 28) throw reader.damaged("a number of more than five bytes")
      byte = nextByte(reader)
    }
    result | (byte << shift)
  }

  private def overrun(reader: FrameReader): Throwable =
    reader.damaged("a record runs past the end of its block")
}
