package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory, MemoryAccount}

/**
 * Hash table from a key to the ref of its newest record, in buckets of one cache line: a control
 * word, and seven slots. Each slot is a word with 32 bits of the key's hash above the ref. The
 * control word has a tag for each slot, which is eight bits of the hash, or 0 for an empty slot. It
 * also counts the entries that did not fit in this bucket.
 *
 * So a probe for an absent key reads one word and rarely takes an unpredictable branch: the tags of
 * seven slots are compared at once, and the next bucket matters only if one was full. During such a
 * read the processor executes the following instructions speculatively, which a mispredicted branch
 * would discard.
 *
 * In three of four cases a present key is in its preferred slot, which the hash determines. That
 * slot is checked before the tags, because a lookup by tags needs two dependent reads.
 *
 * An entry of a full bucket is stored in the next bucket with a free slot, and the buckets in
 * between count it. It stays there until it is deleted, and is then no longer counted. There are no
 * tombstones. The upper bits of the hash determine the home bucket of a key. So growing and
 * deleting never access a record, and keys in hash order fill a table of any size from front to
 * back without cache misses.
 */
final class HashIndex(
    memory: Memory,
    account: MemoryAccount,
    maxChain: Int = Int.MaxValue
) {
  import HashIndex._

  private var buckets = MinBuckets
  private var shift = shiftFor(buckets)
  private var table = newTable(buckets)
  private var count = 0
  private var limit = limitFor(buckets)
  private var spread = 1
  private var longest = 0

  def size: Int = count

  def sizeBytes: Long = buckets.toLong * BucketBytes

  /** The slot of a key with this hash; [[HashIndex.Absent]] if it has none. */
  def find(hash: Int, key: Bytes, keys: Keys): Int = {
    val first = home(hash) * Slots + preferred(hash)
    if (isAt(first, hash, key, keys)) first else findByTags(hash, key, keys)
  }

  /** The same for a key that is most likely absent. */
  def findByTags(hash: Int, key: Bytes, keys: Keys): Int = {
    val first = home(hash)
    var bucket = first
    var tags = control(bucket)
    var slot = slotIn(bucket, tags, hash, key, keys)
    while (slot == Absent && isPassed(tags) && next(bucket) != first) {
      bucket = next(bucket)
      tags = control(bucket)
      slot = slotIn(bucket, tags, hash, key, keys)
    }
    slot
  }

  private def slotIn(bucket: Int, control: Long, hash: Int, key: Bytes, keys: Keys): Int = {
    var left = candidates(control, hash)
    while (left != 0L) {
      val slot = slotOf(bucket, left)
      if (isAt(slot, hash, key, keys)) return slot
      left &= left - 1
    }
    Absent
  }

  private def isAt(slot: Int, hash: Int, key: Bytes, keys: Keys): Boolean = {
    val entry = word(slot)
    hashOf(entry) == hash && entry != 0L && keys.holds(refOf(entry), key)
  }

  /**
   * The ref, unsigned, of the only entry with this hash; [[HashIndex.Several]] if there are
   * several, 0 if there is none.
   */
  def onlyRef(hash: Int): Long = {
    val first = home(hash)
    var bucket = first
    var tags = control(bucket)
    var ref = refIn(bucket, tags, hash, 0L)
    while (isPassed(tags) && next(bucket) != first) {
      bucket = next(bucket)
      tags = control(bucket)
      ref = refIn(bucket, tags, hash, ref)
    }
    ref
  }

  private def refIn(bucket: Int, control: Long, hash: Int, before: Long): Long = {
    var ref = before
    var left = candidates(control, hash)
    while (left != 0L) {
      val entry = word(slotOf(bucket, left))
      if (hashOf(entry) == hash) {
        ref = if (ref == 0L) Integer.toUnsignedLong(refOf(entry)) else Several
      }
      left &= left - 1
    }
    ref
  }

  /** Prefetches the word that a probe for `hash` reads first. */
  def touch(hash: Int): Long = control(home(hash))

  /** The bucket in which a probe for `hash` begins. */
  private def home(hash: Int): Int = (hash * spread) >>> shift

  /**
   * Distributes keys with close hashes over distant buckets. For an empty table to which ranges of
   * hashes will be added in random order: by their upper bits, the keys of one range would have
   * nearly the same home while the table is small.
   */
  def scatter(): Unit = {
    require(count == 0, "a nonempty index cannot be scattered")
    spread = Scattered
  }

  private def next(bucket: Int): Int = (bucket + 1) & (buckets - 1)

  private def control(bucket: Int): Long = memory.getLong(table + bucket.toLong * BucketBytes)

  /** The ref of the entry in the slot of a key. */
  def refAt(slot: Int): Int = refOf(word(slot))

  private[engine] def word(slot: Int): Long = memory.getLong(table + slot.toLong * SlotBytes)

  def set(slot: Int, hash: Int, ref: Int): Unit =
    memory.putLong(table + slot.toLong * SlotBytes, toWord(hash, ref))

  /** Reserves space for one more entry. Invalidates slots. */
  def reserve(): Unit = if (count >= limit) resize(buckets * 2)

  /** Reserves space for `entries` in total, so that a bulk load never grows the table. */
  def reserve(entries: Long): Unit = {
    var wanted = buckets.toLong
    while (entries >= limitFor(wanted)) wanted *= 2
    if (wanted > buckets) resize(Math.toIntExact(wanted))
  }

  /** Adds an entry, for which there must be space; see [[reserve]]. */
  def insert(hash: Int, ref: Int): Unit = {
    place(hash, ref)
    count += 1
  }

  /** Removes the entry in `slot`, which must be the slot of a key. */
  def delete(slot: Int): Unit = {
    require((slot & (Slots - 1)) != 0, s"slot $slot of a hash index has no entry")
    val bucket = slot / Slots
    val hash = hashOf(word(slot))
    var at = home(hash)
    while (at != bucket) {
      countPassing(at, -1)
      at = next(at)
    }
    setControl(bucket, control(bucket) & ~(0xffL << tagShift(slot)))
    memory.putLong(table + slot.toLong * SlotBytes, 0L)
    count -= 1
  }

  /** Whether an insert has passed more full buckets than the limit. */
  def isCrowded: Boolean = longest > maxChain

  /**
   * Gives each entry the hash that `hashOf` returns for its ref. Invalidates slots. It uses four
   * bytes of heap per entry and no memory of the account, so it cannot fail because of the memory
   * limit.
   */
  def rehash(hashOf: Int => Int): Unit = {
    val refs = new Array[Int](count)
    var visited = 0
    foreachEntry(table, buckets) { entry =>
      refs(visited) = refOf(entry)
      visited += 1
    }
    memory.zero(table, sizeBytes)
    longest = 0
    refs.foreach(ref => place(hashOf(ref), ref))
  }

  def free(): Unit = if (table != 0L) {
    account.free(table, sizeBytes)
    table = 0L
    count = 0
  }

  private def place(hash: Int, ref: Int): Unit = {
    var bucket = home(hash)
    var empty = emptySlots(control(bucket))
    var passed = 0
    while (empty == 0L) {
      countPassing(bucket, 1)
      bucket = next(bucket)
      empty = emptySlots(control(bucket))
      passed += 1
    }
    if (passed > longest) longest = passed
    val first = preferred(hash)
    val isFirstEmpty = (empty & (0x80L << tagShift(first))) != 0L
    val slot = if (isFirstEmpty) bucket * Slots + first else slotOf(bucket, empty)
    set(slot, hash, ref)
    setControl(bucket, control(bucket) | (tagOf(hash) << tagShift(slot)))
  }

  /** A bucket whose counter has saturated stays marked as passed until the table grows. */
  private def countPassing(bucket: Int, by: Int): Unit = {
    val passed = passedBy(control(bucket))
    if (passed < MaxPassed) {
      setControl(bucket, (control(bucket) << 8 >>> 8) | ((passed + by).toLong << PassedShift))
    }
  }

  private def setControl(bucket: Int, control: Long): Unit =
    memory.putLong(table + bucket.toLong * BucketBytes, control)

  private def resize(newBuckets: Int): Unit = {
    require(newBuckets > 0 && newBuckets <= MaxBuckets, "a hash index holds at most 2^30 slots")
    val oldTable = table
    val oldBuckets = buckets
    table = newTable(newBuckets)
    buckets = newBuckets
    shift = shiftFor(buckets)
    limit = limitFor(buckets.toLong).toInt
    foreachEntry(oldTable, oldBuckets)(entry => place(hashOf(entry), refOf(entry)))
    account.free(oldTable, oldBuckets.toLong * BucketBytes)
  }

  private def foreachEntry(table: Long, buckets: Int)(visit: Long => Unit): Unit = {
    var i = 0L
    while (i < buckets.toLong * BucketBytes) {
      val entry = if ((i & (BucketBytes - 1)) == 0) 0L else memory.getLong(table + i)
      if (entry != 0L) visit(entry)
      i += SlotBytes
    }
  }

  private def newTable(buckets: Int): Long = {
    val sizeBytes = buckets.toLong * BucketBytes
    val address = account.allocateIndex(sizeBytes)
    memory.zero(address, sizeBytes)
    address
  }
}

object HashIndex {

  /** No slot. */
  val Absent = 0

  /** Returned instead of a ref if several entries have one hash. */
  val Several: Long = -1L

  /** The keys of the records to which the refs of an index point. */
  trait Keys {
    def holds(ref: Int, key: Bytes): Boolean
  }

  private val SlotBytes = 8

  /** Words of a bucket, the first of which is its control word. */
  private val Slots = 8
  private val BucketBytes = Slots * SlotBytes
  private val MinBuckets = 8
  private val MaxBuckets = 1 << 27

  // Fraction of all words. At this load one bucket of twelve is full, and one probe of twenty
  // continues.
  private val MaxLoad = 0.55

  // 2^32 over the golden ratio, as in Fibonacci hashing (Knuth, vol. 3, 6.4).
  private val Scattered = 0x9e3779b1

  private val PassedShift = 56
  private val MaxPassed = 0xff
  private val EachByte = 0x0101010101010101L
  private val EachTop = 0x80808080808080L
  private val Tags = 0xffffffffffffffL

  private def shiftFor(buckets: Int): Int = Integer.numberOfLeadingZeros(buckets) + 1

  private def limitFor(buckets: Long): Long = (buckets * Slots * MaxLoad).toLong

  private def limitFor(buckets: Int): Int = limitFor(buckets.toLong).toInt

  private def toWord(hash: Int, ref: Int): Long = (hash.toLong << 32) | (ref & 0xffffffffL)

  private[engine] def hashOf(word: Long): Int = (word >>> 32).toInt

  private[engine] def refOf(word: Long): Int = word.toInt

  /** Uses the lower bits of the hash, because all entries of a bucket share the upper ones. */
  private def tagOf(hash: Int): Long = (hash & 0x7fL) | 0x80L

  /**
   * Uses neither the bits of the tag nor those of the home bucket in tables with a few million
   * keys.
   */
  private def preferred(hash: Int): Int = 1 + (((hash & 0xfff) * (Slots - 1)) >>> 12)

  private def tagShift(slot: Int): Int = ((slot & (Slots - 1)) - 1) * 8

  /** A bit for each slot that may have an entry with this hash, for [[slotOf]]. */
  private def candidates(control: Long, hash: Int): Long = {
    val difference = control ^ (tagOf(hash) * EachByte)
    // Subtracting borrows from the byte above a match, so that byte may be a false candidate.
    (difference - EachByte) & ~difference & EachTop
  }

  /** The slot of the lowest of these bits. */
  private def slotOf(bucket: Int, candidates: Long): Int =
    bucket * Slots + 1 + (java.lang.Long.numberOfTrailingZeros(candidates) >>> 3)

  /** Whether a probe continues after this bucket. */
  private def isPassed(control: Long): Boolean = (control & ~Tags) != 0L

  private def passedBy(control: Long): Int = (control >>> PassedShift).toInt

  /** A bit for each empty slot, in the format of [[candidates]]. */
  private def emptySlots(control: Long): Long = ~control & EachTop
}
