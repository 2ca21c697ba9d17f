package io.cleancut.engine

import java.util.concurrent.atomic.AtomicLong

/**
 * Counts the off-heap bytes that one owner holds, and passes each change on to the account of the
 * process. What is allocated through an account must be freed through it.
 */
final class MemoryAccount private (parent: MemoryAccount, memory: Memory) {
  private val used = new AtomicLong

  def usedBytes: Long = used.get()

  def child(): MemoryAccount = new MemoryAccount(this, memory)

  def allocate(sizeBytes: Long): Long = {
    val address = memory.allocate(sizeBytes)
    add(sizeBytes)
    address
  }

  def free(address: Long, sizeBytes: Long): Unit = {
    memory.free(address, sizeBytes)
    add(-sizeBytes)
  }

  private def add(bytes: Long): Unit = {
    used.addAndGet(bytes)
    if (parent != null) parent.add(bytes)
  }
}

object MemoryAccount {

  /** All off-heap memory that this library holds in this JVM. */
  lazy val process: MemoryAccount = over(Memory.access)

  /** An account of its own, for an owner that brings its own memory. */
  private[cleancut] def over(memory: Memory): MemoryAccount = new MemoryAccount(null, memory)
}
