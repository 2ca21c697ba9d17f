package io.cleancut.base

import java.nio.ByteBuffer
import java.util.zip.CRC32

/** The CRC-32 of bytes, as in all formats. */
object Crc {
  def of(bytes: Array[Byte]): Int = ofParts(ByteBuffer.wrap(bytes))

  /** The CRC-32 of the remaining bytes of several buffers, one after the other. */
  def ofParts(parts: ByteBuffer*): Int = {
    val crc = new CRC32
    parts.foreach(crc.update)
    crc.getValue.toInt
  }
}
