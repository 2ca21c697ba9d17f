package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{Closeable, EOFException, RandomAccessFile}
import java.nio.file.Path

/**
 * A file that several threads read and write at separate positions. Not a channel: an interrupt of
 * one task in a channel closes it for all others.
 */
final private class LocalFile(path: Path, isNew: Boolean) extends Closeable {
  private val file = new RandomAccessFile(path.toFile, if (isNew) "rw" else "r")

  /**
   * @throws java.io.EOFException
   *   if the file is shorter
   */
  def read(at: Long, into: Array[Byte], count: Int): Unit = synchronized {
    if (at + count > file.length) throw new EOFException(s"$path has no $count bytes at $at")
    file.seek(at)
    file.readFully(into, 0, count)
  }

  def write(at: Long, bytes: Array[Byte]): Unit = synchronized {
    file.seek(at)
    file.write(bytes)
  }

  override def close(): Unit = file.close()
}
