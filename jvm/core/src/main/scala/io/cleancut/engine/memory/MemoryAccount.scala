package io.cleancut.engine.memory

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicLong

/**
 * Counts the off-heap bytes of one owner, and adds each change to the account of the process.
 * Memory that is allocated through an account must be freed through it.
 *
 * The account of the process has a limit: allocations beyond it are in mapped files
 * ([[MappedFiles]]) instead of memory. Indexes, which are accessed randomly, may use the complete
 * limit; rows may use three quarters of it.
 */
final class MemoryAccount private (parent: MemoryAccount, memory: Memory) {
  import MemoryAccount._

  private val resident = new AtomicLong
  private val mapped = new AtomicLong
  private val root: MemoryAccount = if (parent == null) this else parent.root

  // The limit applies to the process, and its files serve all accounts.
  @volatile private var bound: Bound = Unbounded
  private val files: MappedFiles =
    if (parent == null) new MappedFiles(() => bound.directory()) else parent.files

  /** Bytes in memory and in mapped files. */
  def usedBytes: Long = resident.get() + mapped.get()

  /** Bytes in memory. */
  def residentBytes: Long = resident.get()

  /** Bytes in mapped files. */
  def mappedBytes: Long = mapped.get()

  def child(): MemoryAccount = new MemoryAccount(this, memory)

  /** Sets the limit of the process from now on; existing allocations are not moved. */
  def limit(boundBytes: Long, directory: () => Path): Unit =
    if (root.bound.bytes != boundBytes) root.bound = new Bound(boundBytes, directory)

  /** The limit of the process in bytes. */
  def boundBytes: Long = root.bound.bytes

  /** Allocates memory for rows. */
  def allocate(sizeBytes: Long): Long = allocate(sizeBytes, RowsShare)

  /** Allocates memory for an index. */
  def allocateIndex(sizeBytes: Long): Long = allocate(sizeBytes, 1.0)

  def free(address: Long, sizeBytes: Long): Unit =
    if (files.holds(address)) {
      memory.freeMapped(files, address, sizeBytes)
      addMapped(-sizeBytes)
    } else {
      memory.free(address, sizeBytes)
      addResident(-sizeBytes)
    }

  private def allocate(sizeBytes: Long, share: Double): Long =
    if (root.residentBytes + sizeBytes > root.bound.bytes * share && files.takes(sizeBytes)) {
      val address = memory.allocateMapped(files, sizeBytes)
      addMapped(sizeBytes)
      address
    } else {
      val address = memory.allocate(sizeBytes)
      addResident(sizeBytes)
      address
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

  final private class Bound(val bytes: Long, val directory: () => Path)

  private val Unbounded =
    new Bound(Long.MaxValue, () => throw new IllegalStateException("no bound"))

  /** The account of all off-heap memory of this library in this JVM. */
  lazy val process: MemoryAccount = over(Memory.access)

  /** A separate account, for an owner with a separate memory. */
  private[cleancut] def over(memory: Memory): MemoryAccount = new MemoryAccount(null, memory)
}
