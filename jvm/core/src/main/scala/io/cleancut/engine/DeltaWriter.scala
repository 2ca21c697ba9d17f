package io.cleancut.engine

import io.cleancut.engine.memory.Memory
import io.cleancut.format.frame.{FamilySchema, FrameWriter}

/**
 * Writes the records since a version to a delta, block by block while the task still runs, so that
 * a commit compresses only the last block. Full blocks are compressed concurrently with the task
 * ([[BlockQueue]]). A record that was replaced before its block is gathered is left out, unless all
 * changes are kept.
 *
 * A frame begins with the column families. If a family is created or dropped after that, the delta
 * starts again; all its records are still in the log.
 */
final class DeltaWriter(
    memory: Memory,
    log: StateLog,
    since: StateLog.Version,
    frames: DeltaWriter.Frames,
    keepsReplaced: Boolean
) {
  private var cursors = Map.empty[Table, Cursor]
  private var frame: FrameWriter = _
  private var queue: BlockQueue = _
  private var blocks: BlockEncoder = _
  private var begunWith = Vector.empty[FamilySchema]

  /** Follows one family. The caller calls `keepUp` after each change. */
  def cursor(family: StateLog.Family): Cursor =
    cursors.getOrElse(
      family.table, {
        val made = new Cursor(family)
        cursors += family.table -> made
        made
      }
    )

  /** Writes all remaining records and the end of the frame. */
  def finish(): Unit = {
    if (frame == null || begunWith != log.families.map(_.schema)) {
      cursors = Map.empty
      begin()
    }
    log.families.foreach(cursor(_).advance())
    queue.finish()
    queue.close()
    frame.finish(log.allKeys, log.families.map(f => f.schema.id -> f.table.totals).toMap)
  }

  /** Drops records that have not been written. The caller cancels the frame. */
  def cancel(): Unit = if (queue != null) queue.close()

  private def begin(): Unit = {
    cancel()
    begunWith = log.families.map(_.schema)
    val isKnown = since.number > 0 && since.schemas == begunWith
    frame = frames.begin(if (isKnown) Nil else begunWith)
    queue = new BlockQueue(frame)
    blocks = new BlockEncoder(memory, queue)
  }

  /** The write position in one family. */
  final class Cursor private[DeltaWriter] (family: StateLog.Family) {
    private val start = since.markOf(family)
    private var nextRef = start.end
    private var writtenBytes = start.totalBytes

    /** Writes the gathered records if they fill a block. Cheap if there is nothing to do. */
    def keepUp(): Unit =
      if (family.table.appendedBytes - writtenBytes >= BlockEncoder.TargetBytes) advance()

    private[DeltaWriter] def advance(): Unit = {
      val table = family.table
      if (table.end != nextRef) {
        if (frame == null) begin()
        val from = nextRef
        nextRef = table.end
        writtenBytes = table.appendedBytes
        table.foreachSince(from) { (_, address) =>
          if (keepsReplaced || table.isPartOfNewest(address)) {
            blocks.add(family.schema.id, address, asMerge = beginsWithoutValues(address))
          }
        }
        blocks.flush()
        log.publish()
      }
    }

    /** False if the delta leaves out the removal of the values that a list had before. */
    private def beginsWithoutValues(address: Long): Boolean = {
      val before = Record.prev(memory, address)
      keepsReplaced || before == 0 || Integer.compareUnsigned(before, start.end) < 0
    }
  }
}

object DeltaWriter {

  /** Creates the frames. */
  trait Frames {

    /** Begins a frame with these families, which replaces an earlier one. */
    def begin(families: Seq[FamilySchema]): FrameWriter
  }
}
