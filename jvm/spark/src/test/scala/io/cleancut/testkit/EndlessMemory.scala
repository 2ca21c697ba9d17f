package io.cleancut.testkit

import io.cleancut.engine.memory.Memory

/** Memory that returns addresses without storage, for tests of very large sizes. */
final class EndlessMemory extends Memory {
  private var next = 1L << 20

  override def allocate(sizeBytes: Long): Long = {
    val address = next
    next += sizeBytes
    address
  }

  override def free(address: Long, sizeBytes: Long): Unit = ()
  override def getByte(base: AnyRef, offset: Long): Byte = refuse()
  override def getInt(address: Long): Int = refuse()
  override def putInt(address: Long, value: Int): Unit = refuse()
  override def getLong(base: AnyRef, offset: Long): Long = refuse()
  override def putLong(base: AnyRef, offset: Long, value: Long): Unit = refuse()
  override def zero(address: Long, sizeBytes: Long): Unit = refuse()
  override def copy(from: AnyRef, at: Long, to: AnyRef, there: Long, sizeBytes: Long): Unit =
    refuse()

  private def refuse(): Nothing = throw new AssertionError("an address has no storage")
}
