package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.{ByteArrayOutputStream, IOException, OutputStream}

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}

import io.cleancut.base.Clock
import io.cleancut.objectstore.{CreateResult, MultipartUpload, ObjectKey, ObjectStore, WriterToken}

/**
 * A stream into an object that appears when the stream is closed, and never if it is cancelled.
 * Content up to one part is written with one request, larger content in parts while it is written.
 *
 * @param mayReplace
 *   whether an object of this name may exist. If not, one conditional request decides between
 *   several writers. No store supports that for uploads in parts, so a check before the first part
 *   has to suffice
 * @param written
 *   called with content that was written with one request
 */
final private class ObjectOutput(
    store: ObjectStore,
    key: ObjectKey,
    mayReplace: Boolean,
    path: Path,
    clock: Clock,
    written: Array[Byte] => Unit
) extends OutputStream {
  import ObjectOutput._

  private val token = WriterToken.fresh(clock)
  private var buffer = new Buffer
  private var upload = Option.empty[MultipartUpload]
  private var parts = 0
  private var isDone = false

  override def write(byte: Int): Unit = {
    checkOpen()
    buffer.write(byte)
    if (buffer.size == PartBytes) sendPart()
  }

  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    checkOpen()
    var from = offset
    val end = offset + length
    while (from < end) {
      val count = Math.min(PartBytes - buffer.size, end - from)
      buffer.write(bytes, from, count)
      from += count
      if (buffer.size == PartBytes) sendPart()
    }
  }

  override def close(): Unit = if (!isDone) {
    isDone = true
    upload match {
      case None        => writeWhole(buffer.toByteArray)
      case Some(begun) =>
        try {
          if (buffer.size > 0) send(begun)
          begun.complete()
        } catch {
          case e: Throwable =>
            try begun.abort()
            catch { case interrupted: InterruptedException => e.addSuppressed(interrupted) }
            throw e
        }
    }
  }

  /** Discards the output. Has no effect after [[close]]. */
  def cancel(): Unit = if (!isDone) {
    isDone = true
    upload.foreach(_.abort())
  }

  private def writeWhole(body: Array[Byte]): Unit = {
    if (mayReplace) store.put(key, body)
    else
      store.create(key, body, token) match {
        case CreateResult.Created   => ()
        case CreateResult.Exists(_) => throw alreadyThere
      }
    written(body)
  }

  private def sendPart(): Unit = {
    if (upload.isEmpty) {
      if (!mayReplace && store.head(key).isDefined) throw alreadyThere
      upload = Some(store.upload(key, PartBytes, token))
    }
    upload.foreach(send)
  }

  private def send(begun: MultipartUpload): Unit = {
    parts += 1
    begun.part(parts, buffer.toByteArray)
    buffer = new Buffer
  }

  private def checkOpen(): Unit = if (isDone) throw new IOException(s"$path is closed")

  private def alreadyThere = new FileAlreadyExistsException(s"$path already exists")
}

private object ObjectOutput {

  /** Equal parts, which R2 requires; 10,000 parts, the largest number, hold 80 GB. */
  private val PartBytes = 8 << 20

  final private class Buffer extends ByteArrayOutputStream(1024)
}
