package io.cleancut.engine

import io.cleancut.engine.memory.Bytes
import io.cleancut.format.frame.{BlockScratch, FrameReader}

/**
 * The records of a frame, one after another. [[key]] and [[value]] point into the scratch and hold
 * until the next record.
 */
final class FrameRecords(reader: FrameReader, scratch: BlockScratch) {
  if (reader.isReferring) throw reader.damaged("it has no rows of its own")

  private val records = new BlockDecoder(reader.damaged, reader.identity.parent.isEmpty)
  private var hasMore = true

  val key: Bytes = records.key
  val value: Bytes = records.value

  /** See [[RecordOperation]]. */
  def operation: Byte = records.operation

  /** Id of the column family. */
  def family: Int = records.family

  /** Moves to the next record; false at the end of the frame. */
  def advance(): Boolean = {
    var isThere = records.advance()
    while (!isThere && hasMore) {
      val count = reader.nextBlock()
      hasMore = count > 0
      if (hasMore) {
        records.begin(scratch.raw, reader.rawLength, count)
        isThere = records.advance()
      }
    }
    isThere
  }
}
