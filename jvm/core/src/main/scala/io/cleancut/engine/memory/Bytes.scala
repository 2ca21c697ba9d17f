package io.cleancut.engine.memory

/**
 * A reference to bytes that another object owns: `length` bytes at `offset` of the array `base`, or
 * at the absolute address `offset` if base is null. One instance is reused, so that the hot path
 * creates no garbage.
 */
final class Bytes {
  var base: AnyRef = _
  var offset: Long = 0L
  var length: Int = 0

  def pointTo(base: AnyRef, offset: Long, length: Int): Bytes = {
    this.base = base
    this.offset = offset
    this.length = length
    this
  }

  def toArray(memory: Memory): Array[Byte] = {
    val copy = new Array[Byte](length)
    memory.copy(base, offset, copy, Memory.ByteArrayOffset, length.toLong)
    copy
  }
}

object Bytes {
  def of(array: Array[Byte]): Bytes =
    new Bytes().pointTo(array, Memory.ByteArrayOffset, array.length)
}
