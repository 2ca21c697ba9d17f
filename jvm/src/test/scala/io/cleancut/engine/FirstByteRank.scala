package io.cleancut.engine

import io.cleancut.testkit.Blob.Blob

/** Few ranks, negative ones among them, so that many keys of tests share one. */
class FirstByteRank(memory: Memory) extends RankOf {
  override def rank(key: Bytes): Long =
    if (key.length == 0) 0L else FirstByteRank.of(memory.getByte(key.base, key.offset))
}

object FirstByteRank {
  val all: Seq[Long] = -2L to 1L

  def of(key: Blob): Long = if (key.isEmpty) 0L else of(key.head)

  private def of(byte: Byte): Long = (byte & 3) - 2L
}
