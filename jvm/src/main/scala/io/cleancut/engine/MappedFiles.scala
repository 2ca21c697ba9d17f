package io.cleancut.engine

import java.io.IOException
import java.nio.{Buffer, ByteBuffer, MappedByteBuffer}
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.concurrent.ConcurrentHashMap

import io.cleancut.error.Errors

import sun.misc.Unsafe

/**
 * Memory in files on a local disk, which the operating system moves between memory and disk as it
 * sees fit. A file has no name from the moment it is mapped, so that nothing is left behind however
 * the process ends. Its blocks are written before it is mapped: a full disk is then an error here
 * and not a fault at some later access.
 *
 * Pages of [[MappedFiles.PageBytes]] share files, since a process may have only so many mappings;
 * anything else has one of its own.
 *
 * @param directory
 *   asked for at the first file
 */
final class MappedFiles(directory: () => Path) {
  import MappedFiles._

  private val files = new ConcurrentHashMap[Long, MappedFile]
  private var freePages = List.empty[Long]

  def isEmpty: Boolean = files.isEmpty

  /** Bytes of all files, pages that wait for use included. */
  def sizeBytes: Long = {
    var sum = 0L
    files.values.forEach(file => sum += file.sizeBytes)
    sum
  }

  /** Whether so many bytes can be mapped in one piece. */
  def takes(sizeBytes: Long): Boolean = sizeBytes <= MaxMappingBytes

  def allocate(sizeBytes: Long): Long = synchronized {
    if (sizeBytes != PageBytes) map(sizeBytes).address
    else {
      if (freePages.isEmpty) addPages()
      val page = freePages.head
      freePages = freePages.tail
      pageFile(page).used += 1
      page
    }
  }

  def free(address: Long, sizeBytes: Long): Unit = synchronized {
    if (sizeBytes != PageBytes) unmap(files.get(address))
    else {
      val file = pageFile(address)
      file.used -= 1
      freePages = address :: freePages
      if (file.used == 0) {
        freePages = freePages.filterNot(file.holds)
        unmap(file)
      }
    }
  }

  private def addPages(): Unit = {
    val file = map(PagesInFile * PageBytes)
    freePages = List.tabulate(PagesInFile)(i => file.address + i * PageBytes)
  }

  private def pageFile(page: Long): MappedFile = {
    var found: MappedFile = null
    files.values.forEach(file => if (file.holds(page)) found = file)
    found
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
    var used = 0
    def holds(page: Long): Boolean = page >= address && page < address + sizeBytes
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

  /** What Java's mapped buffers do not offer. */
  private object UnsafeBuffers {
    private val unsafe: Unsafe = {
      val field = classOf[Unsafe].getDeclaredField("theUnsafe")
      field.setAccessible(true)
      field.get(null).asInstanceOf[Unsafe]
    }
    private val addressField =
      unsafe.objectFieldOffset(classOf[Buffer].getDeclaredField("address"))

    def addressOf(buffer: MappedByteBuffer): Long = unsafe.getLong(buffer, addressField)

    /** At once, and not when the collector finds it. The address must not be used afterwards. */
    def unmap(buffer: MappedByteBuffer): Unit = unsafe.invokeCleaner(buffer)
  }
}
