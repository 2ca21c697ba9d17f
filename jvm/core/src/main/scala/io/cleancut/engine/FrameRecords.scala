package io.cleancut.engine

import io.cleancut.engine.memory.Bytes
import io.cleancut.format.frame.{BlockScratch, FrameReader}

/**
 * Iterates over the records of a frame. [[key]] and [[value]] point into the scratch buffer and are
 * valid until the next record.
 */
final class FrameRecords(reader: FrameReader, scratch: BlockScratch) {
  if (reader.isReferring) throw reader.damaged("it only references other frames")

  private val records = new BlockDecoder(reader.damaged, reader.identity.parent.isEmpty)
  private var hasMore = true

  val key: Bytes = records.key
  val value: Bytes = records.value

  /** See [[RecordOperation]]. */
  def operation: Byte = records.operation

  /** ID of the column family. */
  def family: Int = records.family

  /** Moves to the next record; false at the end of the frame. */
  def advance(): Boolean = {
    var hasRecord = records.advance()
    while (!hasRecord && hasMore) {
      val count = reader.nextBlock()
      hasMore = count > 0
      if (hasMore) {
        records.begin(scratch.raw, reader.rawLength, count)
        hasRecord = records.advance()
      }
    }
    hasRecord
  }
}
