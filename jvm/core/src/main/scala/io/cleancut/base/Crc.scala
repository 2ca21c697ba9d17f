package io.cleancut.base

import java.util.zip.CRC32

/** The CRC-32 of bytes, as all formats have it. */
object Crc {
  def of(bytes: Array[Byte]): Int = {
    val crc = new CRC32
    crc.update(bytes)
    crc.getValue.toInt
  }
}
