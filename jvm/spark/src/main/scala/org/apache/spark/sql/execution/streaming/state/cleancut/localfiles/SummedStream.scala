package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{ByteArrayOutputStream, DataOutputStream, FilterOutputStream, OutputStream}
import java.util.zip.CRC32

/**
 * Writes to a file, and computes the checksum file of Hadoop's `ChecksumFs`: a header, and a
 * big-endian CRC-32 of each [[SummedStream.ChunkBytes]] bytes.
 */
final private[localfiles] class SummedStream(out: OutputStream) extends FilterOutputStream(out) {
  import SummedStream._

  private val sum = new CRC32
  private var inChunk = 0
  private val bytes = new ByteArrayOutputStream
  private val sums = new DataOutputStream(bytes)
  sums.write(Header)
  sums.writeInt(ChunkBytes)

  override def write(byte: Int): Unit = {
    out.write(byte)
    sum.update(byte)
    inChunk += 1
    if (inChunk == ChunkBytes) end()
  }

  override def write(data: Array[Byte], offset: Int, length: Int): Unit = {
    out.write(data, offset, length)
    var done = 0
    while (done < length) {
      val part = Math.min(ChunkBytes - inChunk, length - done)
      sum.update(data, offset + done, part)
      done += part
      inChunk += part
      if (inChunk == ChunkBytes) end()
    }
  }

  /** The content of the checksum file, after the last byte was written. */
  def checksums(): Array[Byte] = {
    if (inChunk > 0) end()
    bytes.toByteArray
  }

  private def end(): Unit = {
    sums.writeInt(sum.getValue.toInt)
    sum.reset()
    inChunk = 0
  }
}

private[localfiles] object SummedStream {

  /** Hadoop's default for local disks, `file.bytes-per-checksum`. */
  val ChunkBytes = 512
  private val Header = Array[Byte]('c', 'r', 'c', 0)
}
