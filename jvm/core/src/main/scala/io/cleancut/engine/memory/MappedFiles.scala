package io.cleancut.engine.memory

import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}
import java.nio.{Buffer, ByteBuffer, MappedByteBuffer}
import java.util.BitSet
import java.util.concurrent.ConcurrentSkipListMap

import scala.collection.mutable

import sun.misc.Unsafe

import io.cleancut.error.Errors

/**
 * Memory in files on a local disk, which the operating system moves between memory and disk. A file
 * is unlinked once it is mapped, so no file remains when the process ends. Its blocks are written
 * before it is mapped, so a full disk causes an error here and not a fault at a later access.
 *
 * The number of mappings of a process is limited. Pages of [[MappedFiles.PageBytes]] therefore
 * share files, and pieces of up to half a page share pages with pieces of about the same size
 * ([[Slab]]). Larger allocations have separate files.
 *
 * @param directory
 *   directory of new files, evaluated for each file
 */
final class MappedFiles(directory: () => Path) {
  import MappedFiles._

  private val files = new ConcurrentSkipListMap[Long, MappedFile]
  private val filesOfPages = mutable.LinkedHashSet.empty[MappedFile]
  private val freePages = mutable.LinkedHashSet.empty[Long]
  private val slabs = mutable.LongMap.empty[Slab]
  private val openSlabs = mutable.Map.empty[Int, mutable.LinkedHashSet[Slab]]

  def isEmpty: Boolean = files.isEmpty

  /** Bytes of all files, including free space in them. */
  def sizeBytes: Long = {
    var sum = 0L
    files.values.forEach(file => sum += file.sizeBytes)
    sum
  }

  /** Whether the address is in one of the files. */
  def holds(address: Long): Boolean = fileAt(address) != null

  /** Whether an allocation of this size is suitable for a file and fits in one mapping. */
  def takes(sizeBytes: Long): Boolean = sizeBytes >= Slab.MinBytes && sizeBytes <= MaxMappingBytes

  def allocate(sizeBytes: Long): Long = synchronized {
    if (sizeBytes > PageBytes) map(sizeBytes).address
    else if (sizeBytes > Slab.MaxBytes) takePage()
    else takeSlot(Slab.slotBytes(sizeBytes.toInt))
  }

  def free(address: Long, sizeBytes: Long): Unit = synchronized {
    if (sizeBytes > PageBytes) unmap(fileAt(address))
    else if (sizeBytes > Slab.MaxBytes) giveBackPage(address)
    else giveBackSlot(address)
  }

  private def fileAt(address: Long): MappedFile = {
    val entry = files.floorEntry(address)
    if (entry != null && entry.getValue.holds(address)) entry.getValue else null
  }

  private def takePage(): Long = {
    if (freePages.isEmpty) {
      val file = map(PagesInFile * PageBytes)
      filesOfPages += file
      freePages ++= pagesOf(file)
    }
    val page = freePages.head
    freePages -= page
    fileAt(page).used += 1
    page
  }

  private def giveBackPage(page: Long): Unit = {
    val file = fileAt(page)
    file.used -= 1
    freePages += page
    // One empty file is kept while others are in use: otherwise state at the limit would repeatedly
    // write it.
    if (file.used == 0) {
      val empty = filesOfPages.filter(_.used == 0)
      val isIdle = empty.size == filesOfPages.size
      (if (isIdle) empty else empty.drop(1)).foreach(release)
    }
  }

  private def release(file: MappedFile): Unit = {
    filesOfPages -= file
    freePages --= pagesOf(file)
    unmap(file)
  }

  private def pagesOf(file: MappedFile): Seq[Long] =
    Seq.tabulate(PagesInFile)(i => file.address + i * PageBytes)

  private def takeSlot(slotBytes: Int): Long = {
    val open = openSlabs.getOrElseUpdate(slotBytes, mutable.LinkedHashSet.empty)
    if (open.isEmpty) {
      val slab = new Slab(takePage(), slotBytes)
      slabs(slab.page) = slab
      open += slab
    }
    val slab = open.head
    val address = slab.take()
    if (slab.isFull) open -= slab
    address
  }

  private def giveBackSlot(address: Long): Unit = {
    val file = fileAt(address)
    val page = file.address + (address - file.address) / PageBytes * PageBytes
    val slab = slabs(page)
    val open = openSlabs(slab.slotBytes)
    slab.giveBack(address)
    open += slab
    if (slab.isEmpty) {
      open -= slab
      slabs -= page
      giveBackPage(page)
    }
  }

  private def map(sizeBytes: Long): MappedFile = {
    val buffer =
      try mapNew(directory(), sizeBytes)
      catch { case e: IOException => throw Errors.spillFailed(sizeBytes, this.sizeBytes, e) }
    val file = new MappedFile(buffer, UnsafeBuffers.addressOf(buffer), sizeBytes)
    files.put(file.address, file)
    file
  }

  private def unmap(file: MappedFile): Unit = {
    files.remove(file.address)
    UnsafeBuffers.unmap(file.buffer)
  }
}

object MappedFiles {

  /** The size of most pages of a [[PagedLog]]. */
  val PageBytes: Long = 1L << 20

  private val PagesInFile = 16
  private val MaxMappingBytes = 1L << 30
  private val Zeros = 256 << 10

  final private class MappedFile(
      val buffer: MappedByteBuffer,
      val address: Long,
      val sizeBytes: Long
  ) {
    // Free pages of the file, if it has pages.
    var used = 0
    def holds(place: Long): Boolean = place >= address && place < address + sizeBytes
  }

  /** A page of slots of one size, for slightly smaller allocations. */
  final private class Slab(val page: Long, val slotBytes: Int) {
    private val slots = (PageBytes / slotBytes).toInt
    private val taken = new BitSet(slots)
    private var count = 0

    def isEmpty: Boolean = count == 0
    def isFull: Boolean = count == slots

    def take(): Long = {
      val slot = taken.nextClearBit(0)
      taken.set(slot)
      count += 1
      page + slot.toLong * slotBytes
    }

    def giveBack(address: Long): Unit = {
      taken.clear(((address - page) / slotBytes).toInt)
      count -= 1
    }
  }

  private object Slab {

    /** Smaller allocations stay in memory: the log that they belong to takes many times as much. */
    val MinBytes: Long = 512L
    val MaxBytes: Long = PageBytes / 2

    /** The next of eight sizes between two powers of two, which limits the waste. */
    def slotBytes(sizeBytes: Int): Int = {
      val step = Math.max(Integer.highestOneBit(sizeBytes - 1) / 8, 8)
      (sizeBytes + step - 1) / step * step
    }
  }

  private def mapNew(directory: Path, sizeBytes: Long): MappedByteBuffer = {
    val path = Files.createTempFile(directory, "cleancut-state-", ".pages")
    try {
      val channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)
      try {
        val zeros = ByteBuffer.allocate(Zeros)
        var left = sizeBytes
        while (left > 0) {
          zeros.clear().limit(Math.min(left, Zeros.toLong).toInt)
          left -= channel.write(zeros)
        }
        channel.map(FileChannel.MapMode.READ_WRITE, 0L, sizeBytes)
      } finally channel.close()
    } finally Files.delete(path)
  }

  /** Operations that Java's mapped buffers do not offer. */
  private object UnsafeBuffers {
    private val unsafe: Unsafe = {
      val field = classOf[Unsafe].getDeclaredField("theUnsafe")
      field.setAccessible(true)
      field.get(null).asInstanceOf[Unsafe]
    }
    private val addressField =
      unsafe.objectFieldOffset(classOf[Buffer].getDeclaredField("address"))

    def addressOf(buffer: MappedByteBuffer): Long = unsafe.getLong(buffer, addressField)

    /**
     * Unmaps immediately, and not during garbage collection. The address must not be used
     * afterwards.
     */
    def unmap(buffer: MappedByteBuffer): Unit = unsafe.invokeCleaner(buffer)
  }
}
