package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.testkit.Blob.Blob

/** An order with few places, including the last one, so that many keys share a place. */
class FirstByteRank(memory: Memory) extends KeyOrder {
  private var rank = 0L

  override def locate(key: Bytes): Unit =
    rank = if (key.length == 0) 0L else FirstByteRank.of(memory.getByte(key.base, key.offset))

  override def major: Long = rank
  override def minor: Long = 0L
}

object FirstByteRank {
  val all: Seq[Long] = -2L to 1L

  def of(key: Blob): Long = if (key.isEmpty) 0L else of(key.head)

  private def of(byte: Byte): Long = (byte & 3) - 2L
}
