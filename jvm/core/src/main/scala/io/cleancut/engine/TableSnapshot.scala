package io.cleancut.engine

import io.cleancut.engine.memory.Memory

/**
 * One pass over the rows of a version, in the order in which they were last written. It reads the
 * log only, never an index, so that puts and removes during the pass neither disturb nor show in
 * it.
 */
final class TableSnapshot(memory: Memory, view: PagedLog.View, bound: Int) extends RecordScan {
  import Record._

  private var upcoming = PagedLog.FirstRef
  private var found = 0L
  private var foundRef = 0

  override def advance(): Boolean = {
    found = 0L
    while (found == 0L && step()) {}
    found != 0L
  }

  override def address: Long = found

  def ref: Int = foundRef

  private def step(): Boolean = {
    val ref = view.skip(upcoming)
    if (ref == view.end || Integer.compareUnsigned(ref, bound) >= 0) return false
    val address = view.address(ref)
    val value = valueLength(memory, address)
    upcoming = ref + (sizeBytes(keyLength(memory, address), value) >>> 3)
    if (value != Removed && isNewest(memory, address, bound)) {
      found = address
      foundRef = ref
    }
    true
  }
}
