package io.cleancut.engine

import io.cleancut.engine.memory.Memory
import io.cleancut.format.frame.{FamilySchema, FrameWriter}

/**
 * Writes what was appended since a version into a delta, block by block while the task still runs,
 * so that a commit has only the last block left to compress; full blocks are compressed beside the
 * task ([[BlockQueue]]). A record that has been replaced by the time its block is gathered is left
 * out, unless all are to be kept.
 *
 * A frame begins with the column families. If a family comes or goes after that, the delta is begun
 * once more; everything that belongs in it is still in the log.
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

  /** Follows one family; the caller asks it to keep up after each change. */
  def cursor(family: StateLog.Family): Cursor =
    cursors.getOrElse(
      family.table, {
        val made = new Cursor(family)
        cursors += family.table -> made
        made
      }
    )

  /** Writes out everything, and the end of the frame. */
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

  /** Drops what has not been written. The frame that was begun is the caller's to cancel. */
  def cancel(): Unit = if (queue != null) queue.close()

  private def begin(): Unit = {
    cancel()
    begunWith = log.families.map(_.schema)
    val isKnown = since.number > 0 && since.schemas == begunWith
    frame = frames.begin(if (isKnown) Nil else begunWith)
    queue = new BlockQueue(frame)
    blocks = new BlockEncoder(memory, queue)
  }

  /** How far one family has been written. */
  final class Cursor private[DeltaWriter] (family: StateLog.Family) {
    private val start = since.markOf(family)
    private var nextRef = start.end
    private var writtenBytes = start.totalBytes

    /** Writes out what has gathered if it fills a block. Cheap when there is nothing to do. */
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
            blocks.add(family.schema.id, address, asMerge = beginsWhereNoneIs(address))
          }
        }
        blocks.flush()
        log.publish()
      }
    }

    /** False if the delta leaves out what took the values away that a list had before. */
    private def beginsWhereNoneIs(address: Long): Boolean = {
      val before = Record.prev(memory, address)
      keepsReplaced || before == 0 || Integer.compareUnsigned(before, start.end) < 0
    }
  }
}

object DeltaWriter {

  /** Where the frames come from. */
  trait Frames {

    /** Begins a frame with these families, in the place of one that was begun before. */
    def begin(families: Seq[FamilySchema]): FrameWriter
  }
}
