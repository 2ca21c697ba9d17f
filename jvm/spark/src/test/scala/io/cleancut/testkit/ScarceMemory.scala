package io.cleancut.testkit

import io.cleancut.engine.memory.RawMemory
import io.cleancut.error.Errors

/** Memory that a test may limit: it fails after a number of further allocations. */
final class ScarceMemory extends CheckedMemory(RawMemory) {
  private var left = Int.MaxValue

  def allowOnly(allocations: Int): Unit = left = allocations

  def allowAll(): Unit = left = Int.MaxValue

  override def allocate(sizeBytes: Long): Long = {
    if (left == 0) throw Errors.offHeapExhausted(sizeBytes, 0L)
    left -= 1
    super.allocate(sizeBytes)
  }
}
