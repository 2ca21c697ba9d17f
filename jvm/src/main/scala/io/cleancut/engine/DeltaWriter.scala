package io.cleancut.engine

/**
 * Writes what was appended since a version into a delta, block by block while the task still runs, so
 * that a commit has only the last block left to compress. A record that has been replaced by the
 * time its block is written is left out.
 */
final class DeltaWriter(table: Table, since: Table.Mark, blocks: RecordBlocks) {
  private var nextRef = since.end
  private var writtenBytes = since.totalBytes

  /** Writes out what has gathered if it fills a block. Cheap when there is nothing to do. */
  def keepUp(): Unit =
    if (table.appendedBytes - writtenBytes >= RecordBlocks.TargetBytes) advance()

  /** Writes out everything. */
  def finish(): Unit = {
    advance()
    blocks.flush()
  }

  private def advance(): Unit = {
    val from = nextRef
    nextRef = table.end
    writtenBytes = table.appendedBytes
    table.foreachSince(from) { (_, address) =>
      if (Record.next(Memory.access, address) == 0) blocks.add(address)
    }
  }
}
