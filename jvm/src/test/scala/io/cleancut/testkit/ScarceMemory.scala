package io.cleancut.testkit

import io.cleancut.engine.{Memory, RawMemory}
import io.cleancut.error.Errors

/** Memory that a test may end: after so many allocations more, the next one fails. */
final class ScarceMemory extends Memory {
  private var left = Int.MaxValue

  def allowOnly(allocations: Int): Unit = left = allocations

  def allowAll(): Unit = left = Int.MaxValue

  override def allocate(sizeBytes: Long): Long = {
    if (left == 0) throw Errors.offHeapExhausted(sizeBytes, 0L)
    left -= 1
    RawMemory.allocate(sizeBytes)
  }

  override def free(address: Long, sizeBytes: Long): Unit = RawMemory.free(address, sizeBytes)
  override def getByte(base: AnyRef, offset: Long): Byte = RawMemory.getByte(base, offset)
  override def getInt(address: Long): Int = RawMemory.getInt(address)
  override def putInt(address: Long, value: Int): Unit = RawMemory.putInt(address, value)
  override def getLong(base: AnyRef, offset: Long): Long = RawMemory.getLong(base, offset)
  override def putLong(address: Long, value: Long): Unit = RawMemory.putLong(address, value)
  override def zero(address: Long, sizeBytes: Long): Unit = RawMemory.zero(address, sizeBytes)

  override def copy(
      fromBase: AnyRef,
      from: Long,
      toBase: AnyRef,
      to: Long,
      sizeBytes: Long
  ): Unit = RawMemory.copy(fromBase, from, toBase, to, sizeBytes)
}
