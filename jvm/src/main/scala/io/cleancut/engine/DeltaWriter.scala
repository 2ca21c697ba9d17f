package io.cleancut.engine

import io.cleancut.format.{BlockScratch, FrameWriter}

/**
 * Writes what was appended since a version into a delta, block by block while the task still runs,
 * so that a commit has only the last block left to compress. A record that has been replaced by the
 * time its block is written is left out.
 */
final class DeltaWriter(
    memory: Memory,
    table: Table,
    since: Table.Mark,
    family: Int,
    frame: () => FrameWriter
) {
  private var nextRef = since.end
  private var writtenBytes = since.totalBytes

  /** Writes out what has gathered if it fills a block. Cheap when there is nothing to do. */
  def keepUp(): Unit =
    if (table.appendedBytes - writtenBytes >= RecordBlocks.TargetBytes) advance()

  /** Writes out everything, and the end of the frame. */
  def finish(): Unit = {
    advance()
    frame().finish(table.keys)
  }

  private def advance(): Unit = if (table.end != nextRef) {
    val from = nextRef
    nextRef = table.end
    writtenBytes = table.appendedBytes
    val scratch = BlockScratch.borrow()
    try {
      val blocks = new RecordBlocks(memory, family, frame(), scratch)
      table.foreachSince(from) { (_, address) =>
        if (Record.next(memory, address) == 0) blocks.add(address)
      }
      blocks.flush()
    } finally scratch.giveBack()
  }
}
