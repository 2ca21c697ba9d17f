package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.nio.ByteBuffer

import org.apache.hadoop.fs.FSInputStream

/** A small file in memory. Hadoop requires seekable streams. */
final class BytesInput(bytes: Array[Byte]) extends FSInputStream {
  private val in = ByteBuffer.wrap(bytes)

  override def read(): Int = if (in.hasRemaining) in.get() & 0xff else -1

  override def seek(to: Long): Unit = {
    in.position(Math.toIntExact(to))
    ()
  }

  override def getPos: Long = in.position().toLong

  override def seekToNewSource(target: Long): Boolean = false
}
