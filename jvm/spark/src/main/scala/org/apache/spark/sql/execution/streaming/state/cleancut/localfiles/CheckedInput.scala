package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.InputStream
import java.util.zip.CRC32

/**
 * Compares bytes with a checksum when the last of them has been read, for inputs that are too large
 * to buffer.
 *
 * @param expected
 *   CRC-32 of all bytes
 * @param differs
 *   the error if they differ
 */
final class CheckedInput(in: InputStream, expected: Int, differs: => Throwable)
    extends InputStream {
  private val crc = new CRC32

  override def read(): Int = {
    val byte = in.read()
    if (byte < 0) check() else crc.update(byte)
    byte
  }

  override def read(bytes: Array[Byte], from: Int, count: Int): Int = {
    val got = in.read(bytes, from, count)
    if (got < 0) check() else crc.update(bytes, from, got)
    got
  }

  override def close(): Unit = in.close()

  private def check(): Unit = if (crc.getValue.toInt != expected) throw differs
}
