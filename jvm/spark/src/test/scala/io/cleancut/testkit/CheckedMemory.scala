package io.cleancut.testkit

import java.util.concurrent.ConcurrentSkipListMap

import io.cleancut.engine.memory.{MappedFiles, Memory}

/**
 * Memory for tests: each access must be inside one live allocation or inside its array. Memory is
 * filled with a pattern when it is allocated and before it is freed. So a read of unwritten or
 * freed memory returns the pattern, and not zeros or a plausible stale value.
 */
class CheckedMemory(raw: Memory) extends Memory {
  private val live = new ConcurrentSkipListMap[Long, Long]

  override def allocate(sizeBytes: Long): Long = {
    val address = raw.allocate(sizeBytes)
    fill(address, sizeBytes)
    live.put(address, sizeBytes)
    address
  }

  /** Number of allocations that have not been freed. */
  def liveAllocations: Int = live.size

  override def free(address: Long, sizeBytes: Long): Unit = {
    val known = live.remove(address)
    if (known != sizeBytes) fail(s"free of $sizeBytes bytes, allocated were $known", address)
    fill(address, sizeBytes)
    raw.free(address, sizeBytes)
  }

  override def allocateMapped(files: MappedFiles, sizeBytes: Long): Long = {
    val address = raw.allocateMapped(files, sizeBytes)
    fill(address, sizeBytes)
    live.put(address, sizeBytes)
    address
  }

  override def freeMapped(files: MappedFiles, address: Long, sizeBytes: Long): Unit = {
    val known = live.remove(address)
    if (known != sizeBytes) fail(s"free of $sizeBytes bytes, allocated were $known", address)
    fill(address, sizeBytes)
    raw.freeMapped(files, address, sizeBytes)
  }

  override def getByte(base: AnyRef, offset: Long): Byte = {
    check(base, offset, 1)
    raw.getByte(base, offset)
  }

  override def getInt(address: Long): Int = {
    check(null, address, 4)
    raw.getInt(address)
  }

  override def putInt(address: Long, value: Int): Unit = {
    check(null, address, 4)
    raw.putInt(address, value)
  }

  override def getLong(base: AnyRef, offset: Long): Long = {
    check(base, offset, 8)
    raw.getLong(base, offset)
  }

  override def putLong(base: AnyRef, offset: Long, value: Long): Unit = {
    check(base, offset, 8)
    raw.putLong(base, offset, value)
  }

  override def zero(address: Long, sizeBytes: Long): Unit = {
    check(null, address, sizeBytes)
    raw.zero(address, sizeBytes)
  }

  override def copy(
      fromBase: AnyRef,
      from: Long,
      toBase: AnyRef,
      to: Long,
      sizeBytes: Long
  ): Unit = {
    // The source may be memory of Spark, such as its off-heap pages, which is not checked.
    if (fromBase != null) check(fromBase, from, sizeBytes)
    check(toBase, to, sizeBytes)
    raw.copy(fromBase, from, toBase, to, sizeBytes)
  }

  // The source may be memory of Spark too, which is not checked.
  override def copyRow(
      fromBase: AnyRef,
      from: Long,
      toBase: AnyRef,
      to: Long,
      sizeBytes: Int
  ): Unit = {
    check(toBase, to, sizeBytes.toLong)
    if (fromBase != null) check(fromBase, from, sizeBytes.toLong)
    raw.copyRow(fromBase, from, toBase, to, sizeBytes)
  }

  private def fill(address: Long, sizeBytes: Long): Unit = {
    var i = 0L
    while (i + 8 <= sizeBytes) {
      raw.putLong(address + i, 0xdeaddeaddeaddeadL)
      i += 8
    }
  }

  private def check(base: AnyRef, offset: Long, sizeBytes: Long): Unit = base match {
    case null =>
      val entry = live.floorEntry(offset)
      if (entry == null || offset + sizeBytes > entry.getKey + entry.getValue) {
        fail(s"access of $sizeBytes bytes outside every live allocation", offset)
      }
    case bytes: Array[Byte] =>
      val index = offset - Memory.ByteArrayOffset
      if (index < 0 || index + sizeBytes > bytes.length) {
        fail(s"access of $sizeBytes bytes in an array of ${bytes.length}", index)
      }
    case _ => ()
  }

  private def fail(failure: String, at: Long): Nothing =
    throw new AssertionError(s"memory check failed: $failure at 0x${at.toHexString}")
}
