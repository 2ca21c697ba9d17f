package io.cleancut.engine

import io.cleancut.format.{BlockScratch, FrameReader, FrameTrailer}

/** Applies the records of a frame to the families of a log, in order. */
final class FrameLoad(log: StateLog) {

  /** Reads the whole frame; afterwards the log must hold as many keys as the trailer says. */
  def apply(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    reserve(reader)
    val records = new FrameRecords(reader, scratch)
    var family = -1
    var table: Table = null
    var hasLists = false
    while (records.advance()) {
      if (records.family != family) {
        family = records.family
        val found = log.families.find(_.schema.id == family).getOrElse {
          throw reader.damaged(s"a record of unknown family $family")
        }
        table = found.table
        hasLists = found.schema.isMultiValued
      }
      records.operation match {
        case RecordOperation.Put   => table.put(records.key, records.value)
        case RecordOperation.Merge =>
          if (!hasLists) throw reader.damaged(s"a merge in family $family, which has no lists")
          table.merge(records.key, records.value)
        case _ =>
          table.remove(records.key)
          ()
      }
    }
    verify(reader)
    reader.trailer
  }

  private def reserve(reader: FrameReader): Unit =
    reader.identity.familyKeys.foreach { case (id, keys) =>
      log.table(id).foreach(_.reserve(Math.min(keys, FrameLoad.MaxReservedKeys)))
    }

  private def verify(reader: FrameReader): Unit = {
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
  }
}

object FrameLoad {

  /** A damaged count must not take the machine's memory before the damage is found. */
  private val MaxReservedKeys = 64L << 20
}
