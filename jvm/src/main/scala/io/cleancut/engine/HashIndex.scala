package io.cleancut.engine

/**
 * Open-addressing table from key to the ref of its newest record. A slot is one word: 32 bits of
 * the key's hash above the ref; an empty slot is 0, which no ref is. Linear probing, at most
 * [[HashIndex.MaxLoad]] full; deletion shifts back (Knuth, TAOCP 6.4, algorithm R), so that there
 * are no tombstones. The home of a key is given by the upper bits of its hash: so growing and
 * deleting never touch a record, and keys that come in the order of their hashes fill a table of
 * any size from front to back, without a cache miss.
 */
final class HashIndex(memory: Memory, account: MemoryAccount) {
  import HashIndex._

  private var slots = MinSlots
  private var shift = shiftFor(slots)
  private var table = newTable(slots)
  private var count = 0

  def size: Int = count

  def sizeBytes: Long = slots.toLong * SlotBytes

  /** The slot at which a probe for `hash` begins; it goes on with [[next]]. */
  def home(hash: Int): Int = hash >>> shift

  def next(slot: Int): Int = (slot + 1) & (slots - 1)

  def word(slot: Int): Long = memory.getLong(table + slot.toLong * SlotBytes)

  def set(slot: Int, hash: Int, ref: Int): Unit =
    memory.putLong(table + slot.toLong * SlotBytes, toWord(hash, ref))

  /** Makes room for one more entry. Slots found before are void after it. */
  def reserve(): Unit = if (count >= (slots * MaxLoad).toInt) resize(slots * 2)

  /** Makes room for `entries` in all, so that a bulk load never grows in between. */
  def reserve(entries: Long): Unit = {
    var wanted = slots.toLong
    while (entries >= (wanted * MaxLoad).toLong) wanted *= 2
    if (wanted > slots) resize(Math.toIntExact(wanted))
  }

  /** Fills the empty `slot`, the one at which a probe for `hash` ended after [[reserve]]. */
  def insert(slot: Int, hash: Int, ref: Int): Unit = {
    set(slot, hash, ref)
    count += 1
  }

  def delete(slot: Int): Unit = {
    var hole = slot
    var at = next(hole)
    var current = word(at)
    while (current != 0L) {
      // An entry may move into the hole only if its home does not lie between the hole and itself.
      val fromHome = (at - home(hashOf(current))) & (slots - 1)
      val fromHole = (at - hole) & (slots - 1)
      if (fromHome >= fromHole) {
        memory.putLong(table + hole.toLong * SlotBytes, current)
        hole = at
      }
      at = next(at)
      current = word(at)
    }
    memory.putLong(table + hole.toLong * SlotBytes, 0L)
    count -= 1
  }

  def free(): Unit = if (table != 0L) {
    account.free(table, sizeBytes)
    table = 0L
    count = 0
  }

  private def resize(newSlots: Int): Unit = {
    require(newSlots > 0, "a hash index holds at most 2^30 slots")
    val oldTable = table
    val oldSlots = slots
    val grown = newTable(newSlots)
    table = grown
    slots = newSlots
    shift = shiftFor(slots)
    var i = 0
    while (i < oldSlots) {
      val entry = memory.getLong(oldTable + i.toLong * SlotBytes)
      if (entry != 0L) {
        var to = home(hashOf(entry))
        while (word(to) != 0L) to = next(to)
        memory.putLong(table + to.toLong * SlotBytes, entry)
      }
      i += 1
    }
    account.free(oldTable, oldSlots.toLong * SlotBytes)
  }

  private def newTable(slots: Int): Long = {
    val sizeBytes = slots.toLong * SlotBytes
    val address = account.allocateIndex(sizeBytes)
    memory.zero(address, sizeBytes)
    address
  }
}

object HashIndex {
  private val MinSlots = 64
  private val SlotBytes = 8

  // At this load a probe for an absent key, the dearer one, looks at three slots.
  private val MaxLoad = 0.55

  private def shiftFor(slots: Int): Int = Integer.numberOfLeadingZeros(slots) + 1

  private def toWord(hash: Int, ref: Int): Long = (hash.toLong << 32) | (ref & 0xffffffffL)

  def hashOf(word: Long): Int = (word >>> 32).toInt

  def refOf(word: Long): Int = word.toInt
}
