package io.cleancut.engine.memory

import java.lang.reflect.Field

import sun.misc.Unsafe

import io.cleancut.error.Errors

/**
 * All raw memory accesses of the engine. A location is either an absolute address (base null) or an
 * offset into a Java array, as in `sun.misc.Unsafe`.
 *
 * [[RawMemory]] implements it, and in tests a class that refuses accesses outside live allocations.
 * Only one of them is loaded in a JVM, so that calls through this class are inlined.
 */
abstract class Memory {
  def allocate(sizeBytes: Long): Long
  def free(address: Long, sizeBytes: Long): Unit

  /** Allocates memory in mapped files; its content is zeros or freed data. */
  def allocateMapped(files: MappedFiles, sizeBytes: Long): Long = files.allocate(sizeBytes)

  def freeMapped(files: MappedFiles, address: Long, sizeBytes: Long): Unit =
    files.free(address, sizeBytes)

  def getByte(base: AnyRef, offset: Long): Byte
  def getInt(address: Long): Int
  def putInt(address: Long, value: Int): Unit
  def getLong(base: AnyRef, offset: Long): Long
  def putLong(base: AnyRef, offset: Long, value: Long): Unit
  def zero(address: Long, sizeBytes: Long): Unit
  def copy(fromBase: AnyRef, from: Long, toBase: AnyRef, to: Long, sizeBytes: Long): Unit

  final def getLong(address: Long): Long = getLong(null, address)
  final def putLong(address: Long, value: Long): Unit = putLong(null, address, value)

  /**
   * Copies mostly short data, such as keys and values: a call of the copy routine costs several
   * times as much as copying a few words.
   */
  def copyRow(fromBase: AnyRef, from: Long, toBase: AnyRef, to: Long, sizeBytes: Int): Unit =
    if (sizeBytes > Memory.ShortBytes || (sizeBytes & 7) != 0) {
      copy(fromBase, from, toBase, to, sizeBytes.toLong)
    } else {
      var i = 0
      while (i < sizeBytes) {
        putLong(toBase, to + i, getLong(fromBase, from + i))
        i += 8
      }
    }

  /** Whether `sizeBytes` bytes at both locations are equal. */
  final def same(base: AnyRef, at: Long, otherBase: AnyRef, otherAt: Long, bytes: Int): Boolean = {
    var i = 0
    val words = bytes & ~7
    while (i < words && getLong(base, at + i) == getLong(otherBase, otherAt + i)) i += 8
    if (i < words) return false
    while (i < bytes && getByte(base, at + i) == getByte(otherBase, otherAt + i)) i += 1
    i == bytes
  }
}

object Memory {

  /** Offset of the first element of a `byte[]`. */
  val ByteArrayOffset: Long = Unsafe.ARRAY_BYTE_BASE_OFFSET.toLong

  private val ShortBytes = 64

  /** Alignment: a cache line, or half of one. */
  private[engine] val LineBytes: Long = 64L

  /** System property of tests: the memory class, which wraps [[RawMemory]]. */
  private val ClassProperty = "cleancut.memory.class"

  val access: Memory = sys.props.get(ClassProperty).fold[Memory](RawMemory) { name =>
    val made = Class.forName(name).getConstructor(classOf[Memory]).newInstance(RawMemory)
    made.asInstanceOf[Memory]
  }
}

/** Memory without checks. */
object RawMemory extends Memory {
  private val unsafe: Unsafe = {
    val field: Field = classOf[Unsafe].getDeclaredField("theUnsafe")
    field.setAccessible(true)
    field.get(null).asInstanceOf[Unsafe]
  }

  /**
   * Allocates memory that begins with a cache line, which index buckets and short records require.
   * The word before it has the start of the underlying allocation.
   */
  override def allocate(sizeBytes: Long): Long = {
    val taken =
      try unsafe.allocateMemory(sizeBytes + Memory.LineBytes)
      catch {
        case _: OutOfMemoryError =>
          throw Errors.offHeapExhausted(sizeBytes, MemoryAccount.process.residentBytes)
      }
    val address = (taken + Memory.LineBytes) & -Memory.LineBytes
    unsafe.putLong(address - 8, taken)
    address
  }

  override def free(address: Long, sizeBytes: Long): Unit =
    unsafe.freeMemory(unsafe.getLong(address - 8))

  override def getByte(base: AnyRef, offset: Long): Byte = unsafe.getByte(base, offset)
  override def getInt(address: Long): Int = unsafe.getInt(address)
  override def putInt(address: Long, value: Int): Unit = unsafe.putInt(address, value)
  override def getLong(base: AnyRef, offset: Long): Long = unsafe.getLong(base, offset)

  override def putLong(base: AnyRef, offset: Long, value: Long): Unit =
    unsafe.putLong(base, offset, value)

  override def zero(address: Long, sizeBytes: Long): Unit =
    unsafe.setMemory(address, sizeBytes, 0.toByte)

  override def copy(fromBase: AnyRef, from: Long, toBase: AnyRef, to: Long, sizeBytes: Long): Unit =
    unsafe.copyMemory(fromBase, from, toBase, to, sizeBytes)
}
