package io.cleancut.engine

import io.cleancut.format.frame.{BlockScratch, FrameReader, FrameTrailer}

/**
 * Applies the records of a frame to the families of a log, in order. On a base that has not been
 * read completely ([[StateLog.attach]]), records are appended without a lookup of the records that
 * they replace. In that case the frame must contain the totals of each family.
 */
final class FrameLoad(log: StateLog) {

  /** Reads the complete frame. Afterwards the log must have the number of keys in the trailer. */
  def apply(reader: FrameReader, scratch: BlockScratch): FrameTrailer = {
    reserve(reader)
    val isBlind = !log.isComplete
    val records = new FrameRecords(reader, scratch)
    var family = -1
    var table: Table = null
    var hasLists = false
    while (records.advance()) {
      if (records.family != family) {
        family = records.family
        val target = log.families.find(_.schema.id == family).getOrElse {
          throw reader.damaged(s"a record of unknown family $family")
        }
        table = target.table
        hasLists = target.schema.isMultiValued
      }
      records.operation match {
        case RecordOperation.Put =>
          if (isBlind) table.replayPut(records.key, records.value)
          else table.put(records.key, records.value)
        case RecordOperation.Merge =>
          if (!hasLists) throw reader.damaged(s"a merge in family $family, which has no lists")
          table.merge(records.key, records.value)
        case _ =>
          if (isBlind) table.replayRemove(records.key)
          else table.remove(records.key)
          ()
      }
    }
    if (isBlind) takeTotals(reader)
    verify(reader)
    reader.trailer
  }

  private def reserve(reader: FrameReader): Unit =
    reader.identity.familyKeys.foreach { case (id, keys) =>
      log.table(id).foreach(_.reserve(Math.min(keys, FrameLoad.MaxReservedKeys)))
    }

  private def takeTotals(reader: FrameReader): Unit = log.families.foreach { family =>
    val totals = reader.trailer.index.totals.getOrElse(
      family.schema.id,
      throw reader.damaged(s"it has no totals of family ${family.schema.id}")
    )
    family.table.setTotals(totals, reader.damaged)
  }

  private def verify(reader: FrameReader): Unit = {
    val trailer = reader.trailer
    trailer.index.totals.foreach { case (id, said) =>
      val actual = log.table(id).map(_.totals)
      if (!actual.contains(said)) {
        throw reader.damaged(
          s"family $id has ${actual.getOrElse("nothing")}, its index states $said"
        )
      }
    }
    if (log.allKeys != trailer.keys) {
      throw reader.damaged(
        s"the store has ${log.allKeys} keys after it, the trailer states ${trailer.keys}"
      )
    }
    val hasLists = log.families.exists(_.schema.isMultiValued)
    if (reader.identity.parent.isEmpty && !hasLists && trailer.records != trailer.keys) {
      throw reader.damaged(s"a base of ${trailer.keys} keys has ${trailer.records} records")
    }
  }
}

object FrameLoad {

  /**
   * Limit of preallocated keys: a corrupted count must not exhaust memory before the corruption is
   * detected.
   */
  private[engine] val MaxReservedKeys = 64L << 20
}
