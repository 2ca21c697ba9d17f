package io.cleancut.engine

import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

/**
 * Counts the off-heap bytes that one owner holds, and passes each change on to the account of the
 * process. What is allocated through an account must be freed through it.
 *
 * The account of the process has a bound: what would go beyond it is taken in mapped files
 * ([[MappedFiles]]) instead of memory. Indexes, which are read all over all the time, may use all
 * of the bound; the rows leave them a quarter.
 */
final class MemoryAccount private (parent: MemoryAccount, memory: Memory) {
  import MemoryAccount._

  private val resident = new AtomicLong
  private val mapped = new AtomicLong
  private val root: MemoryAccount = if (parent == null) this else parent.root

  // Of the account of the process only.
  @volatile private var bound: Bound = Unbounded
  private val mappedIn = new ConcurrentHashMap[Long, MappedFiles]

  /** Bytes in memory and in mapped files. */
  def usedBytes: Long = resident.get() + mapped.get()

  /** Bytes in memory. */
  def residentBytes: Long = resident.get()

  /** Bytes in mapped files. */
  def mappedBytes: Long = mapped.get()

  def child(): MemoryAccount = new MemoryAccount(this, memory)

  /** Sets the bound of the process, from now on; what is there stays where it is. */
  def limit(boundBytes: Long, directory: () => Path): Unit =
    if (root.bound.bytes != boundBytes) {
      root.bound = new Bound(boundBytes, new MappedFiles(directory))
    }

  /** The bound of the process in bytes. */
  def boundBytes: Long = root.bound.bytes

  /** Takes memory for rows. */
  def allocate(sizeBytes: Long): Long = allocate(sizeBytes, RowsShare)

  /** Takes memory for an index. */
  def allocateIndex(sizeBytes: Long): Long = allocate(sizeBytes, 1.0)

  def free(address: Long, sizeBytes: Long): Unit = {
    val files = if (root.mappedIn.isEmpty) null else root.mappedIn.remove(address)
    if (files == null) {
      memory.free(address, sizeBytes)
      addResident(-sizeBytes)
    } else {
      memory.freeMapped(files, address, sizeBytes)
      addMapped(-sizeBytes)
    }
  }

  private def allocate(sizeBytes: Long, share: Double): Long = {
    val limit = root.bound
    val isMapped = sizeBytes >= MappedFiles.PageBytes &&
      root.residentBytes + sizeBytes > limit.bytes * share && limit.files.takes(sizeBytes)
    if (isMapped) {
      val address = memory.allocateMapped(limit.files, sizeBytes)
      root.mappedIn.put(address, limit.files)
      addMapped(sizeBytes)
      address
    } else {
      val address = memory.allocate(sizeBytes)
      addResident(sizeBytes)
      address
    }
  }

  private def addResident(bytes: Long): Unit = {
    resident.addAndGet(bytes)
    if (parent != null) parent.addResident(bytes)
  }

  private def addMapped(bytes: Long): Unit = {
    mapped.addAndGet(bytes)
    if (parent != null) parent.addMapped(bytes)
  }
}

object MemoryAccount {
  private val RowsShare = 0.75

  final private class Bound(val bytes: Long, val files: MappedFiles)

  private val Unbounded =
    new Bound(Long.MaxValue, new MappedFiles(() => throw new IllegalStateException("no bound")))

  /** All off-heap memory that this library holds in this JVM. */
  lazy val process: MemoryAccount = over(Memory.access)

  /** An account of its own, for an owner that brings its own memory. */
  private[cleancut] def over(memory: Memory): MemoryAccount = new MemoryAccount(null, memory)
}
