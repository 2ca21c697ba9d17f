package org.apache.spark.sql.execution.streaming.state.cleancut

import java.io.OutputStream

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/**
 * Output that becomes a file at [[commit]]. The file is opened as late as possible: creating one costs
 * the file system several round trips, and a task that is aborted should not have paid for it.
 */
private[cleancut] final class PendingFile(create: () => CancellableFSDataOutputStream)
    extends OutputStream {
  private var buffer = new Array[Byte](PendingFile.InitialBytes)
  private var buffered = 0
  private var file: CancellableFSDataOutputStream = _

  override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)

  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    if (file == null && buffered + length > PendingFile.MaxBufferedBytes) spill()
    if (file != null) file.write(bytes, offset, length)
    else {
      if (buffered + length > buffer.length) {
        val wanted = Math.max(buffered + length, buffer.length * 2)
        buffer = java.util.Arrays.copyOf(buffer, wanted)
      }
      System.arraycopy(bytes, offset, buffer, buffered, length)
      buffered += length
    }
  }

  /** Makes the file appear. */
  def commit(): Unit = {
    if (file == null) spill()
    file.close()
  }

  /** Leaves nothing behind. */
  def cancel(): Unit = if (file != null) file.cancel()

  private def spill(): Unit = {
    file = create()
    file.write(buffer, 0, buffered)
    buffer = Array.emptyByteArray
    buffered = 0
  }
}

private[cleancut] object PendingFile {
  private val InitialBytes = 4 << 10

  /** Beyond this a frame goes to the file as it is written. */
  private val MaxBufferedBytes = 4 << 20
}
