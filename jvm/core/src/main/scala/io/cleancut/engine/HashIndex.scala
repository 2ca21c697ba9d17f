package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory, MemoryAccount}

/**
 * Hash table from key to the ref of its newest record, in buckets of one cache line: seven slots,
 * each a word with 32 bits of the key's hash above the ref, and before them a word of control. That
 * has a tag for each slot, eight bits of the hash or 0 where the slot is empty, and a count of the
 * entries that would be in this bucket had it not been full.
 *
 * So a probe for an absent key reads one word, and hardly ever decides anything in a way that a
 * processor does not foresee: the tags of seven slots are compared at once, and the next bucket
 * counts only where one was full. A processor goes on with what follows while such a read waits for
 * memory, which it cannot behind a branch that it took wrongly.
 *
 * A key that is there is in three of four cases where its hash alone says, in its first slot, which
 * is looked at before the tags: to find it by them takes two looks, one after the other.
 *
 * An entry of a full bucket goes to the next that has room, and those on the way count it; it stays
 * where it is until it is deleted, and then they count it no more. There are no tombstones. The
 * home of a key is given by the upper bits of its hash: so growing and deleting never touch a
 * record, and keys that come in the order of their hashes fill a table of any size from front to
 * back, without a cache miss.
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

  /** The slot of a key, of which this is the hash; [[HashIndex.Absent]] if it has none. */
  def find(hash: Int, key: Bytes, keys: Keys): Int = {
    val first = home(hash) * Slots + preferred(hash)
    if (isAt(first, hash, key, keys)) first else findByTags(hash, key, keys)
  }

  /** The same for a key that most likely has none. */
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

  /** The ref, unsigned, of the only entry of this hash; [[HashIndex.Several]], or 0 for none. */
  def onlyRef(hash: Int): Long = {
    val first = home(hash)
    var bucket = first
    var tags = control(bucket)
    var found = refIn(bucket, tags, hash, 0L)
    while (isPassed(tags) && next(bucket) != first) {
      bucket = next(bucket)
      tags = control(bucket)
      found = refIn(bucket, tags, hash, found)
    }
    found
  }

  private def refIn(bucket: Int, control: Long, hash: Int, before: Long): Long = {
    var found = before
    var left = candidates(control, hash)
    while (left != 0L) {
      val entry = word(slotOf(bucket, left))
      if (hashOf(entry) == hash) {
        found = if (found == 0L) Integer.toUnsignedLong(refOf(entry)) else Several
      }
      left &= left - 1
    }
    found
  }

  /** Reads what a probe for `hash` reads first, so that the processor has it. */
  def touch(hash: Int): Long = control(home(hash))

  /** The bucket at which a probe for `hash` begins. */
  private def home(hash: Int): Int = (hash * spread) >>> shift

  /**
   * Gives keys whose hashes lie next to each other homes that do not. For an empty table that will
   * get the keys of one stretch of hashes after another, in no order: by their upper bits those of
   * one stretch would have all but the same home, as long as the table is small.
   */
  def scatter(): Unit = {
    require(count == 0, "an index that has entries cannot be scattered")
    spread = Scattered
  }

  private def next(bucket: Int): Int = (bucket + 1) & (buckets - 1)

  private def control(bucket: Int): Long = memory.getLong(table + bucket.toLong * BucketBytes)

  /** The ref of the entry in a slot that was found for a key. */
  def refAt(slot: Int): Int = refOf(word(slot))

  private[engine] def word(slot: Int): Long = memory.getLong(table + slot.toLong * SlotBytes)

  def set(slot: Int, hash: Int, ref: Int): Unit =
    memory.putLong(table + slot.toLong * SlotBytes, toWord(hash, ref))

  /** Makes room for one more entry. Slots found before are void after it. */
  def reserve(): Unit = if (count >= limit) resize(buckets * 2)

  /** Makes room for `entries` in all, so that a bulk load never grows in between. */
  def reserve(entries: Long): Unit = {
    var wanted = buckets.toLong
    while (entries >= limitFor(wanted)) wanted *= 2
    if (wanted > buckets) resize(Math.toIntExact(wanted))
  }

  /** Adds an entry, for which there must be room; see [[reserve]]. */
  def insert(hash: Int, ref: Int): Unit = {
    place(hash, ref)
    count += 1
  }

  /** Removes the entry in `slot`, which must be a slot that was found for a key. */
  def delete(slot: Int): Unit = {
    require((slot & (Slots - 1)) != 0, s"slot $slot of a hash index holds no entry")
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
   * Gives each entry the hash that `hashOf` returns for its ref. Slots found before are void after
   * it. It takes four bytes of heap for each entry and no memory of the account, so that it cannot
   * fail for want of that.
   */
  def rehash(hashOf: Int => Int): Unit = {
    val refs = new Array[Int](count)
    var found = 0
    foreachEntry(table, buckets) { entry =>
      refs(found) = refOf(entry)
      found += 1
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

  /** Once a bucket has been passed too often to count, it stays so until the table grows. */
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

  /** No ref, since several entries have one hash. */
  val Several: Long = -1L

  /** The keys of the records that the refs of an index name. */
  trait Keys {
    def holds(ref: Int, key: Bytes): Boolean
  }

  private val SlotBytes = 8

  /** Words of a bucket, the first of which is its control. */
  private val Slots = 8
  private val BucketBytes = Slots * SlotBytes
  private val MinBuckets = 8
  private val MaxBuckets = 1 << 27

  // Of all words. At this load one bucket of twelve is full, and one probe of twenty goes on.
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

  /** Of the lower bits of the hash, since all that is in a bucket shares the upper ones. */
  private def tagOf(hash: Int): Long = (hash & 0x7fL) | 0x80L

  /** Neither of the bits of the tag, nor of those that the homes of a few million keys take. */
  private def preferred(hash: Int): Int = 1 + (((hash & 0xfff) * (Slots - 1)) >>> 12)

  private def tagShift(slot: Int): Int = ((slot & (Slots - 1)) - 1) * 8

  /** A bit for each slot that may hold an entry of this hash, to be asked of [[slotOf]]. */
  private def candidates(control: Long, hash: Int): Long = {
    val difference = control ^ (tagOf(hash) * EachByte)
    // Subtracting borrows from the byte above a match, so that this one may be a candidate too.
    (difference - EachByte) & ~difference & EachTop
  }

  /** The slot that the lowest of these bits stands for. */
  private def slotOf(bucket: Int, candidates: Long): Int =
    bucket * Slots + 1 + (java.lang.Long.numberOfTrailingZeros(candidates) >>> 3)

  /** Whether the probe goes on behind this bucket. */
  private def isPassed(control: Long): Boolean = (control & ~Tags) != 0L

  private def passedBy(control: Long): Int = (control >>> PassedShift).toInt

  /** A bit for each empty slot, as those of [[candidates]]. */
  private def emptySlots(control: Long): Long = ~control & EachTop
}
