package org.apache.spark.sql.execution.streaming.state.cleancut.framefiles

import java.util.concurrent.{ExecutionException, Executors}

import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.base.DaemonThreads

/**
 * Output that becomes a file at [[commit]]. Another thread creates the file while the task works,
 * because creation alone takes a file system milliseconds to tens of milliseconds. Data before
 * that, and any small frame, is buffered in memory.
 */
final private[cleancut] class PendingFile(
    create: () => CheckpointFileManager.CancellableFSDataOutputStream
) extends PendingFrame {
  private val creation = PendingFile.threads.submit(() => create())
  private var buffer = new Array[Byte](PendingFile.InitialBytes)
  private var buffered = 0
  private var file: CheckpointFileManager.CancellableFSDataOutputStream = _

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

  /** Publishes the file. */
  override def commit(): Unit = {
    if (file == null) spill()
    file.close()
  }

  /** Discards the file, even if the file could not be created. */
  override def cancel(): Unit =
    if (file != null) file.cancel()
    else
      PendingFile.threads.execute { () =>
        try created().cancel()
        catch { case NonFatal(_) => () }
      }

  private def created(): CheckpointFileManager.CancellableFSDataOutputStream =
    try creation.get()
    catch { case e: ExecutionException => throw e.getCause }

  private def spill(): Unit = {
    file = created()
    file.write(buffer, 0, buffered)
    buffer = Array.emptyByteArray
    buffered = 0
  }
}

private[cleancut] object PendingFile {

  /** As many threads as files that are being created, that is, stores that are written. */
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-create-file"))

  private val InitialBytes = 4 << 10

  /** Size above which a frame is written to the file immediately. */
  private val MaxBufferedBytes = 4 << 20
}
