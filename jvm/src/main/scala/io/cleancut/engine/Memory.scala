package io.cleancut.engine

import java.lang.reflect.Field

import io.cleancut.error.Errors

import sun.misc.Unsafe

/**
 * Every access of the engine to raw memory. A location is either an absolute address (base null) or
 * an offset into a Java array, as in `sun.misc.Unsafe`.
 *
 * Two twins implement it: [[RawMemory]], and [[CheckedMemory]], which refuses what lies outside a
 * live allocation. Only one of them is loaded in a JVM, so that calls through this class are
 * inlined.
 */
abstract class Memory {
  def allocate(sizeBytes: Long): Long
  def free(address: Long, sizeBytes: Long): Unit

  /** Takes memory in mapped files; its content is zeros or what was freed there before. */
  def allocateMapped(files: MappedFiles, sizeBytes: Long): Long = files.allocate(sizeBytes)

  def freeMapped(files: MappedFiles, address: Long, sizeBytes: Long): Unit =
    files.free(address, sizeBytes)

  def getByte(base: AnyRef, offset: Long): Byte
  def getInt(address: Long): Int
  def putInt(address: Long, value: Int): Unit
  def getLong(base: AnyRef, offset: Long): Long
  def putLong(address: Long, value: Long): Unit
  def zero(address: Long, sizeBytes: Long): Unit
  def copy(fromBase: AnyRef, from: Long, toBase: AnyRef, to: Long, sizeBytes: Long): Unit

  final def getLong(address: Long): Long = getLong(null, address)

  /** Whether `sizeBytes` bytes at both places are the same. */
  final def same(base: AnyRef, offset: Long, address: Long, sizeBytes: Int): Boolean = {
    var i = 0
    val words = sizeBytes & ~7
    while (i < words && getLong(base, offset + i) == getLong(null, address + i)) i += 8
    if (i < words) return false
    while (i < sizeBytes && getByte(base, offset + i) == getByte(null, address + i)) i += 1
    i == sizeBytes
  }
}

object Memory {

  /** Offset of the first element of a `byte[]`. */
  val ByteArrayOffset: Long = Unsafe.ARRAY_BYTE_BASE_OFFSET.toLong

  /** System property that switches the checked twin on. */
  val CheckedProperty: String = "cleancut.memory.checked"

  val access: Memory =
    if (java.lang.Boolean.getBoolean(CheckedProperty)) new CheckedMemory(RawMemory) else RawMemory
}

/** Memory without any check. */
object RawMemory extends Memory {
  private val unsafe: Unsafe = {
    val field: Field = classOf[Unsafe].getDeclaredField("theUnsafe")
    field.setAccessible(true)
    field.get(null).asInstanceOf[Unsafe]
  }

  override def allocate(sizeBytes: Long): Long =
    try unsafe.allocateMemory(sizeBytes)
    catch {
      case _: OutOfMemoryError =>
        throw Errors.offHeapExhausted(sizeBytes, MemoryAccount.process.residentBytes)
    }

  override def free(address: Long, sizeBytes: Long): Unit = unsafe.freeMemory(address)
  override def getByte(base: AnyRef, offset: Long): Byte = unsafe.getByte(base, offset)
  override def getInt(address: Long): Int = unsafe.getInt(address)
  override def putInt(address: Long, value: Int): Unit = unsafe.putInt(address, value)
  override def getLong(base: AnyRef, offset: Long): Long = unsafe.getLong(base, offset)
  override def putLong(address: Long, value: Long): Unit = unsafe.putLong(address, value)

  override def zero(address: Long, sizeBytes: Long): Unit =
    unsafe.setMemory(address, sizeBytes, 0.toByte)

  override def copy(fromBase: AnyRef, from: Long, toBase: AnyRef, to: Long, sizeBytes: Long): Unit =
    unsafe.copyMemory(fromBase, from, toBase, to, sizeBytes)
}
