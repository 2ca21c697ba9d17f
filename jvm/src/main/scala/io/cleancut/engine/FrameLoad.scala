package io.cleancut.engine

import io.cleancut.format.{BlockScratch, FrameReader, FrameTrailer}

/** Applies the records of a frame to the families of a log, in order. */
final class FrameLoad(log: StateLog) {
  private val key = new Bytes
  private val value = new Bytes
  private var raw: Array[Byte] = _
  private var position = 0
  private var limit = 0
  private var family = -1
  private var table: Table = _

  /** Reads the whole frame; afterwards the log must hold as many keys as the trailer says. */
  def apply(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    reserve(reader)
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
    if (log.allKeys != trailer.keys) {
      throw reader.damaged(
        s"the store holds ${log.allKeys} keys after it, the trailer says ${trailer.keys}"
      )
    }
    val hasLists = log.families.exists(_.schema.isMultiValued)
    if (reader.identity.parent.isEmpty && !hasLists && trailer.records != trailer.keys) {
      throw reader.damaged(s"a base of ${trailer.keys} keys has ${trailer.records} records")
    }
    trailer
  }

  private def reserve(reader: FrameReader): Unit =
    reader.identity.familyKeys.foreach { case (id, keys) =>
      log.table(id).foreach(_.reserve(Math.min(keys, FrameLoad.MaxReservedKeys)))
    }

  private def applyRecord(reader: FrameReader): Unit = {
    val operation = nextByte(reader)
    val found = nextVarint(reader)
    if (found != family) {
      table = log.table(found).getOrElse(throw reader.damaged(s"a record of unknown family $found"))
      family = found
    }
    val keyLength = nextVarint(reader)
    operation match {
      case RecordOperation.Put =>
        takeRow(keyLength, reader)
        table.put(key, value)
      case RecordOperation.Remove if reader.identity.parent.isEmpty =>
        throw reader.damaged("a base holds a removal")
      case RecordOperation.Remove =>
        take(key, keyLength, reader)
        table.remove(key)
        ()
      case RecordOperation.Merge =>
        takeRow(keyLength, reader)
        table.merge(key, value)
      case unknown => throw reader.damaged(s"a record with unknown operation $unknown")
    }
  }

  private def takeRow(keyLength: Int, reader: FrameReader): Unit = {
    val valueLength = nextVarint(reader)
    take(key, keyLength, reader)
    take(value, valueLength, reader)
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

object FrameLoad {

  /** A damaged count must not take the machine's memory before the damage is found. */
  private val MaxReservedKeys = 64L << 20
}
