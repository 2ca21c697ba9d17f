package io.cleancut.engine

import io.cleancut.engine.memory.Memory

/**
 * Iterates over the rows of a version in the order in which they were last written. It reads only
 * the log and no index, so puts and removes during the iteration neither affect it nor are visible
 * in it.
 */
final class TableSnapshot(memory: Memory, view: PagedLog.View, bound: Int) extends RecordScan {
  import Record._

  private var upcoming = PagedLog.FirstRef
  private var current = 0L
  private var foundRef = 0

  override def advance(): Boolean = {
    current = 0L
    while (current == 0L && step()) {}
    current != 0L
  }

  override def address: Long = current

  def ref: Int = foundRef

  private def step(): Boolean = {
    val ref = view.skip(upcoming)
    if (ref == view.end || Integer.compareUnsigned(ref, bound) >= 0) return false
    val address = view.address(ref)
    val value = valueLength(memory, address)
    upcoming = ref + (sizeBytes(keyLength(memory, address), value) >>> 3)
    if (value != Removed && isNewest(memory, address, bound)) {
      current = address
      foundRef = ref
    }
    true
  }
}
