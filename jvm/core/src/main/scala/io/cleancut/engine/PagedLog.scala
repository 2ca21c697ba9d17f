package io.cleancut.engine

import java.util.Arrays

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.error.Errors

/**
 * Append-only memory in pages that never move. A position in it is a `ref`: an unsigned 32-bit
 * number of 8-byte units, so a log has up to 32 GiB and a ref takes four bytes. Refs increase with
 * time: of two records, the one that was appended later has the greater ref. Ref 0 is invalid.
 *
 * The address space consists of slots of 1 MiB. The first slots have smaller pages, so that a small
 * store stays small, and a record larger than a slot takes one page over several slots.
 *
 * Not thread-safe for writers. A reader in another thread may read below an `end` that it took
 * before, through a [[PagedLog.View]].
 */
final class PagedLog(account: MemoryAccount, name: String) {
  import PagedLog._

  private var addresses = new Array[Long](4)
  private var sizes = new Array[Int](4)
  // Used bytes of the page that begins in a slot; in its further slots the distance to the first
  // slot, negative. 0 for an empty page.
  private var ends = new Array[Int](4)
  private var slot = -1
  private var slotsTaken = 0
  private var position = 0
  private var capacity = 0

  // Views that were taken before the log grew, and may have to show pages that are provided later.
  private var outgrown = List.empty[Array[Long]]
  private var unprovided = 0

  /** A ref above all existing records. New records have this ref or a greater one. */
  def end: Int = if (slot < 0) FirstRef else (slot << SlotUnitBits) + (position >>> UnitBits)

  /** Allocates `sizeBytes` (a multiple of 8); the content is undefined. */
  def append(sizeBytes: Int): Int = {
    if (position + sizeBytes > capacity) addPage(sizeBytes)
    val ref = (slot << SlotUnitBits) + (position >>> UnitBits)
    position += sizeBytes
    ref
  }

  /**
   * Reserves the address range of `sizeBytes` (a multiple of 8), at the end and on a separate page,
   * without memory. [[provide]] allocates the memory; before that the range has no address.
   */
  def reserve(sizeBytes: Int): Int = {
    val next = slotsTaken
    val before = if (next == 0) FirstRef << UnitBits else 0
    takePage(before + sizeBytes, 0L)
    unprovided += 1
    position = capacity
    (next << SlotUnitBits) + (before >>> UnitBits)
  }

  /** Allocates memory for the page that was reserved with this ref, if it has none. */
  def provide(ref: Int): Unit = {
    var page = ref >>> SlotUnitBits
    while (sizes(page) == Continuation) page -= 1
    if (addresses(page) == 0L) {
      val address = account.allocate(sizes(page).toLong)
      for (i <- 0 until slotsOf(sizes(page)); shown <- addresses :: outgrown)
        if (page + i < shown.length) shown(page + i) = address + i.toLong * SlotBytes
      unprovided -= 1
      if (unprovided == 0) outgrown = Nil
    }
  }

  def address(ref: Int): Long =
    addresses(ref >>> SlotUnitBits) + ((ref & SlotUnitMask).toLong << UnitBits)

  /** Frees all records at or after `mark`, an earlier `end`. */
  def truncate(mark: Int): Unit = {
    while (slot >= 0 && Integer.compareUnsigned(slot << SlotUnitBits, mark) >= 0) dropLastPage()
    if (slot >= 0) {
      val inSlot = (mark - (slot << SlotUnitBits)).toLong << UnitBits
      position = Math.min(inSlot, sizes(slot).toLong).toInt
      capacity = sizes(slot)
    }
  }

  def free(): Unit = while (slot >= 0) dropLastPage()

  /** Bytes that can still be appended before the log is full. */
  def roomBytes: Long =
    (MaxSlots - slotsTaken).toLong * SlotBytes + (capacity - position)

  /** The log below the current `end`, for a reader that may outlive later appends. */
  def view(): View = {
    if (slot >= 0) ends(slot) = position
    new View(addresses, ends, slotsTaken, end)
  }

  private def addPage(sizeBytes: Int): Unit = {
    val next = slotsTaken
    val usable = Math.max(sizeBytes + (if (next == 0) FirstRef << UnitBits else 0), pageSize(next))
    checkSlots(usable)
    takePage(usable, account.allocate(usable.toLong))
    position = if (next == 0) FirstRef << UnitBits else 0
  }

  private def checkSlots(usable: Int): Unit =
    if (slotsTaken + slotsOf(usable) > MaxSlots) {
      throw Errors.storeTooLarge(name, MaxSlots.toLong * SlotBytes)
    }

  /** Makes this the last page; a page without memory is at address 0. */
  private def takePage(usable: Int, page: Long): Unit = {
    val next = slotsTaken
    val slots = slotsOf(usable)
    checkSlots(usable)
    if (slot >= 0) ends(slot) = position
    if (next + slots > addresses.length) grow(next + slots)
    for (i <- 0 until slots) {
      addresses(next + i) = if (page == 0L) 0L else page + i.toLong * SlotBytes
      sizes(next + i) = if (i == 0) usable else Continuation
      ends(next + i) = -i
    }
    slot = next
    slotsTaken = next + slots
    capacity = usable
  }

  private def dropLastPage(): Unit = {
    if (addresses(slot) != 0L) account.free(addresses(slot), sizes(slot).toLong)
    else unprovided -= 1
    addresses(slot) = 0L
    slotsTaken = slot
    slot -= 1
    while (slot >= 0 && sizes(slot) == Continuation) slot -= 1
    position = if (slot >= 0) ends(slot) else 0
    capacity = if (slot >= 0) sizes(slot) else 0
  }

  private def grow(slots: Int): Unit = {
    val length = Math.max(slots, addresses.length * 2)
    if (unprovided > 0) outgrown ::= addresses
    addresses = Arrays.copyOf(addresses, length)
    sizes = Arrays.copyOf(sizes, length)
    ends = Arrays.copyOf(ends, length)
  }
}

object PagedLog {
  private val UnitBits = 3
  private val SlotBits = 20

  /** Usable bytes of most pages. */
  private[engine] val SlotBytes: Int = 1 << SlotBits
  private val SlotUnitBits = SlotBits - UnitBits
  private val SlotUnitMask = (1 << SlotUnitBits) - 1

  // One less than the number of refs, so that the end of a full log is a ref and does not wrap to
  // 0.
  private val MaxSlots = (1 << (32 - SlotUnitBits)) - 1
  private val Continuation = -1

  /** The ref of the first record: 0 means "none". */
  val FirstRef: Int = 1

  /** Sizes of the first pages; later ones fill their slot. */
  private val FirstPages = Array(16 << 10, 64 << 10, 256 << 10)

  private def slotsOf(sizeBytes: Int): Int = (sizeBytes + SlotBytes - 1) / SlotBytes

  private def pageSize(slot: Int): Int =
    if (slot < FirstPages.length) FirstPages(slot) else SlotBytes

  /**
   * The part of a log that existed when the view was taken. `scan` may run in any thread while the
   * log is neither truncated below `end` nor freed.
   */
  final class View(addresses: Array[Long], ends: Array[Int], slots: Int, val end: Int) {

    def address(ref: Int): Long =
      addresses(ref >>> SlotUnitBits) + ((ref & SlotUnitMask).toLong << UnitBits)

    /**
     * The first position at or after `ref` where a record may start, or `end`. A record ends where
     * the next one of its page starts, so only the end of a page has to be skipped.
     */
    def skip(ref: Int): Int = {
      var at = ref
      while (at != end && isPastPage(at)) at = nextPage(at)
      at
    }

    private def isPastPage(ref: Int): Boolean = {
      val first = firstSlotOf(ref)
      val inPage = (ref - (first << SlotUnitBits)).toLong << UnitBits
      inPage >= ends(first)
    }

    private def nextPage(ref: Int): Int = {
      var slot = firstSlotOf(ref) + 1
      while (slot < slots && ends(slot) <= 0) slot += 1
      if (slot < slots) slot << SlotUnitBits else end
    }

    /** The first slot of the page that contains the slot of `ref`. */
    private def firstSlotOf(ref: Int): Int = {
      val slot = Math.min(ref >>> SlotUnitBits, slots - 1)
      slot + Math.min(ends(slot), 0)
    }
  }
}
