package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, HashLimit, KeyHash, Memory, MemoryAccount}
import io.cleancut.error.Errors
import io.cleancut.format.frame.{BaseFrame, BlockPlace, FamilyTotals}

/**
 * The records of one column family of one store: a log, its hash index and, for families that are
 * scanned in order, an ordered index of the same records.
 *
 * A key has one value or a list of values: [[merge]] adds a record whose `prev` leads to the
 * earlier values.
 *
 * A version of the table is an `end` of the log. Older versions stay readable, because records are
 * only appended, and [[rollback]] returns to one at the cost of the later records. One thread at a
 * time; a [[snapshot]] may be read in another thread.
 *
 * The index uses the [[KeyHash]] of keys, as the blocks of a base do, until an insert passes more
 * buckets than [[HashLimit]] allows. This indicates chosen keys, and the index changes to a seeded
 * hash.
 *
 * A table can begin with a base on file ([[attach]]) whose blocks are loaded one by one when their
 * keys are requested; the first requests for keys of a block load only these keys. Before an
 * iteration over all rows, all blocks are loaded.
 */
final class Table(
    memory: Memory,
    account: MemoryAccount,
    name: String,
    order: Option[KeyOrder] = None,
    limit: HashLimit = HashLimit.process
) extends HashIndex.Keys {
  import HashIndex.{Absent, Several}
  import Record._

  private val log = new PagedLog(account, name)
  private val index = new HashIndex(memory, account, limit.maxChain)
  private val ordered = order.map(new OrderedIndex(memory, account, _))
  private val removals = new RefQueue

  // Removals below the end of a purge that remain until the base has been read completely.
  private val waitingRemovals = new RefQueue
  private val entryKey = new Bytes

  // Removals that a purge handles together, so that their memory accesses overlap.
  private val removed = new Array[Int](16)

  private val loading = new UnreadBlocks.Target {
    override def expect(hash: Int): Unit = if (!isSeeded) lookedAt += index.touch(hash)

    override def add(record: BlockDecoder, ref: Int, hash: Int): Unit = insert(record, ref, hash)
  }

  // Whether the index uses the seeded hash.
  private[engine] var isSeeded = false

  // Hash of the key that was probed last. Loading a block may change it.
  private var hash = 0

  // Prevents the compiler from removing reads that only prefetch.
  private[engine] var lookedAt = 0L

  // Unread blocks of the base; null if all of it is in the log.
  private var unread: UnreadBlocks = _

  // Keys and bytes of unread blocks, as stated in the frames.
  private var unreadKeys = 0L
  private var unreadBytes = 0L

  // False while a frame is replayed, until its totals are set.
  private var areTotalsSet = true

  // Creates the error for wrong totals of the frame that states them.
  private var damaged: String => Throwable = _

  private var liveKeys = 0L
  private var liveBytes = 0L
  private var totalBytes = 0L

  /** Number of keys in the newest version. */
  def keys: Long = liveKeys

  /** Bytes of the log that only the newest version needs. */
  def neededBytes: Long = liveBytes

  /** Bytes of all records in the log. */
  def appendedBytes: Long = totalBytes

  /** A lower limit of the ref of the next record. */
  def end: Int = log.end

  def deadBytes: Long = totalBytes - liveBytes

  /** Bytes that can still be appended before the log is full. */
  def roomBytes: Long = log.roomBytes

  def mark(): Table.Mark = Table.Mark(log.end, liveKeys, liveBytes, totalBytes)

  /** Whether all records of the table are in the log; before that, only single keys can be read. */
  def isComplete: Boolean = unread == null

  private[engine] def isOrdered: Boolean = order.isDefined

  /** Number of blocks of the base that have not been loaded completely. */
  private[engine] def unreadBlocks: Int = if (unread == null) 0 else unread.size

  /** Number of keys that have a record in the log, including removed keys. */
  private[engine] def keysInLog: Int = index.size

  /**
   * Attaches a base to an empty table: the table immediately has the totals of the base, and loads
   * a block when a key in its hash range is requested.
   */
  private[engine] def attach(
      frame: BaseFrame,
      blocks: Array[BlockPlace],
      totals: FamilyTotals,
      sparse: SparseReads
  ): Unit = {
    require(log.end == PagedLog.FirstRef && index.size == 0, "the table is not empty")
    if (blocks.nonEmpty) {
      unread = new UnreadBlocks(memory, log, frame, blocks, sparse, loading)
      index.scatter()
    }
    liveKeys = totals.keys
    liveBytes = totals.bytes
    totalBytes = totals.bytes
    unreadKeys = totals.keys
    unreadBytes = totals.bytes
    damaged = frame.damaged
    verifyTotals()
  }

  /** Whether all of the base has been read and does not match the totals of the frames. */
  private[engine] def hasWrongTotals: Boolean =
    areTotalsSet && unread != null && unread.isEmpty

  /** Loads the next unread block of the base, if any; returns whether more are left. */
  private[engine] def readNext(): Boolean = {
    if (hasWrongTotals) verifyTotals()
    if (unread != null && !unread.isEmpty) load(unread.first)
    unread != null && !unread.isEmpty
  }

  /**
   * Address of the record of any row, or 0 if there is none. Loads at most one block of the base.
   */
  def anyRow(): Long =
    if (unread == null || unread.isEmpty) {
      val rows = snapshot(NoBound)
      if (rows.advance()) rows.address else 0L
    } else {
      val blocks = unread
      val first = blocks.first
      load(first)
      blocks.anyRowOf(first)
    }

  /** Loads all unread blocks of the base. */
  def complete(): Unit = while (readNext()) {}

  /**
   * Sets the totals of the table that a frame states. They are compared with the rows when all of
   * the base has been read; `damaged` creates the error.
   */
  private[engine] def setTotals(totals: FamilyTotals, damaged: String => Throwable): Unit = {
    this.damaged = damaged
    areTotalsSet = true
    unreadKeys += totals.keys - liveKeys
    unreadBytes += totals.bytes - liveBytes
    liveKeys = totals.keys
    liveBytes = totals.bytes
    verifyTotals()
  }

  /** Compares the rows with the totals of the frames, if all rows are in the log. */
  private def verifyTotals(): Unit = if (areTotalsSet && (unread == null || unread.isEmpty)) {
    if (unreadKeys != 0L || unreadBytes != 0L) {
      throw damaged(
        s"$name has ${liveKeys - unreadKeys} keys in ${liveBytes - unreadBytes} bytes, the index " +
          s"states $liveKeys keys in $liveBytes bytes"
      )
    }
    unread = null
  }

  private[engine] def totals: FamilyTotals = FamilyTotals(liveKeys, liveBytes)

  /**
   * Like [[put]], without a lookup of the key. The totals are wrong until they are set, and the
   * record is linked to the record that it replaces when the block is loaded.
   */
  private[engine] def replayPut(key: Bytes, value: Bytes): Unit = {
    checkSize(key, value)
    reserveKey()
    areTotalsSet = false
    hash = hashOf(key)
    write(key, probeTaken(key), value, value.length)
  }

  /** Like [[remove]], without a lookup of the key. */
  private[engine] def replayRemove(key: Bytes): Unit = {
    areTotalsSet = false
    if (unreadBlockOf(key) >= 0) {
      reserveKey()
      hash = hashOf(key)
      val slot = probeTaken(key)
      if (slot == Absent || isKnown(slot)) write(key, slot, null, Removed)
    } else {
      remove(key)
      ()
    }
  }

  def reserve(keys: Long): Unit = index.reserve(index.size + keys)

  /**
   * Reserves space in the indexes for one more key: a record in the log must also be in the
   * indexes.
   */
  private def reserveKey(): Unit = {
    index.reserve()
    ordered.foreach(_.reserve())
  }

  /** Address of the key's record as visible to a reader with `bound`, or 0 if the key is absent. */
  def find(key: Bytes, bound: Int): Long = {
    val slot = probe(key)
    if (slot == Absent) return 0L
    visibleAt(index.refAt(slot), bound)
  }

  /**
   * Addresses of the records of many keys, as in [[find]]. Each step is executed for all keys
   * before the next step and begins with prefetching reads, so that independent memory accesses
   * overlap.
   */
  private[engine] def findAll(entries: OrderedEntries, bound: Int, into: Array[Long]): Unit = {
    var seen = 0L
    var i = 0
    while (i < entries.size) {
      seen += index.touch(entries.hash(i))
      i += 1
    }
    i = 0
    while (i < entries.size) {
      into(i) = newestRef(entries, i)
      i += 1
    }
    i = 0
    while (i < entries.size) {
      if (into(i) != 0L) seen += next(memory, log.address(into(i).toInt))
      i += 1
    }
    i = 0
    while (i < entries.size) {
      if (into(i) != 0L) into(i) = visibleAt(into(i).toInt, bound)
      i += 1
    }
    lookedAt = seen
  }

  /**
   * Prefetches the buckets and the newest records of the first `count` keys, given by their hashes
   * ([[hashOf]]). The memory accesses for them overlap; those of later requests for the keys, one
   * after another, would not. It has no effect on results.
   */
  def prefetch(hashes: Array[Int], count: Int): Unit = {
    var seen = 0L
    var i = 0
    while (i < count) {
      seen += index.touch(hashes(i))
      i += 1
    }
    i = 0
    while (i < count) {
      val ref = index.onlyRef(hashes(i))
      if (ref != 0L && ref != Several) seen += next(memory, log.address(ref.toInt))
      i += 1
    }
    lookedAt = seen
  }

  /** The newest ref of an entry's key, unsigned; 0 if the key is gone. */
  private def newestRef(entries: OrderedEntries, i: Int): Long = {
    val only = index.onlyRef(entries.hash(i))
    if (only != Several) only
    else {
      keyOf(entries.ref(i), entryKey)
      val slot = probe(entryKey)
      if (slot == Absent) 0L else Integer.toUnsignedLong(index.refAt(slot))
    }
  }

  /**
   * Address of the record that is visible to a reader with `bound`, given the newest of its key.
   */
  private def visibleAt(newest: Int, bound: Int): Long = {
    var ref = newest
    var address = log.address(ref)
    while (Integer.compareUnsigned(ref, bound) >= 0) {
      ref = prev(memory, address)
      if (ref == 0) return 0L
      address = log.address(ref)
    }
    if (valueLength(memory, address) == Removed) 0L else address
  }

  /** Whether the newest record of the key is a value before `end`. */
  private[engine] def hasRowBefore(key: Bytes, end: Int): Boolean = {
    val slot = probe(key)
    isKnown(slot) && Integer.compareUnsigned(index.refAt(slot), end) < 0
  }

  /** Sets the value of a key. */
  def put(key: Bytes, value: Bytes): Unit = {
    checkSize(key, value)
    reserveKey()
    write(key, probe(key), value, value.length)
  }

  /** Adds a value after the existing values of the key, or begins the list. */
  def merge(key: Bytes, value: Bytes): Unit = {
    checkSize(key, value)
    reserveKey()
    val slot = probe(key)
    val field = value.length | (if (isKnown(slot)) Added else Begun)
    write(key, slot, value, field)
  }

  /**
   * Adds `count` values as [[merge]] does, or sets the list to them if `replaces`, with one lookup
   * of the key. `valueAt` returns the value of an index; the table reads it before the next call.
   */
  def mergeList(key: Bytes, count: Int, replaces: Boolean)(valueAt: Int => Bytes): Unit =
    if (count == 0) {
      if (replaces) remove(key)
      ()
    } else {
      reserveKey()
      var slot = probe(key)
      var link = if (replaces) 0 else if (isKnown(slot)) Added else Begun
      var i = 0
      while (i < count) {
        val value = valueAt(i)
        checkSize(key, value)
        write(key, slot, value, value.length | link)
        if (slot == Absent) slot = probe(key)
        link = Added
        i += 1
      }
    }

  /** Removes the key; false if it was absent, in which case nothing is recorded. */
  def remove(key: Bytes): Boolean = {
    val slot = probe(key)
    val known = isKnown(slot)
    if (known) write(key, slot, null, Removed)
    known
  }

  /** Addresses of the records of a key's values, oldest first, given the newest of them. */
  def valuesAt(newest: Long): Array[Long] = values(memory, newest)(log.address)

  /**
   * Undoes all changes since `mark`. The first record of a key since then has the ref of the key's
   * previous newest record, so one forward pass restores the index.
   */
  def rollback(mark: Table.Mark): Unit = {
    if (unread != null && Integer.compareUnsigned(mark.end, unread.end) < 0) readForRollback()
    val view = log.view()
    val key = new Bytes
    foreachRef(view, mark.end) { (ref, address) =>
      val before = prev(memory, address)
      if (before == 0 || Integer.compareUnsigned(before, mark.end) < 0) {
        key.pointTo(null, keyAddress(address), keyLength(memory, address))
        val slot = probe(key)
        if (before == 0) {
          index.delete(slot)
          ordered.foreach(_.remove(key)(_ == ref))
        } else {
          index.set(slot, hash, before)
          setNext(memory, log.address(before), 0)
        }
      }
    }
    log.truncate(mark.end)
    removals.truncate(mark.end)
    waitingRemovals.truncate(mark.end)
    liveKeys = mark.keys
    liveBytes = mark.liveBytes
    totalBytes = mark.totalBytes
  }

  /** Reads the complete base without keeping its rows, so its totals do not matter. */
  private def readForRollback(): Unit = {
    while (!unread.isEmpty) loadRows(unread.first)
    unread = null
    unreadKeys = 0L
    unreadBytes = 0L
  }

  /** The rows of the version that ends at `bound` ([[Record.NoBound]]: all so far). */
  def snapshot(bound: Int): TableSnapshot = {
    complete()
    val view = log.view()
    new TableSnapshot(memory, view, if (bound == NoBound) view.end else bound)
  }

  /** A view for a reader of the current version in another thread. */
  def view(): PagedLog.View = log.view()

  /**
   * The rows between two places in key order, as they are now or were at `bound`. `to` is
   * exclusive, and null for the end of the family.
   */
  def scan(from: Place, to: Place, bound: Int): RecordScan = {
    val index = ordered.getOrElse {
      throw Errors.unsupportedFeature("an ordered scan", s"the keys of $name are not ordered")
    }
    complete()
    val rows = new OrderedScan(this, index, from, to, if (bound == NoBound) log.end else bound)
    if (order.get.isTotal) rows else new TieSortedScan(this, order.get, rows)
  }

  /**
   * Removes index entries of keys that were removed before `end` and not put again. No earlier
   * version may be read or restored afterwards. Without it the indexes would keep every removed key
   * until the next compaction, and a scan from the smallest key, as for timers, would step over all
   * of them. A removal in an unread block stays until the base has been read completely: without
   * the entry, the key would be read from the block again.
   */
  def purge(end: Int): Unit = {
    var count = takeRemovals(end)
    while (count > 0) {
      (0 until count).foreach(i => lookedAt += index.touch(hashOf(keyOf(removed(i), entryKey))))
      (0 until count).foreach(i => if (!isReplaced(removed(i))) deleteEntry(removed(i)))
      count = takeRemovals(end)
    }
  }

  /** Takes removals before `end` into `removed`, and prefetches their records. */
  private def takeRemovals(end: Int): Int = {
    var count = 0
    var ref = nextRemoval(end)
    while (ref != 0) {
      lookedAt += next(memory, log.address(ref))
      removed(count) = ref
      count += 1
      ref = if (count < removed.length) nextRemoval(end) else 0
    }
    count
  }

  private def deleteEntry(ref: Int): Unit = {
    keyOf(ref, entryKey)
    index.delete(probe(entryKey))
    ordered.foreach(_.remove(entryKey)(entry => holds(entry, entryKey)))
  }

  private def isReplaced(ref: Int): Boolean = next(memory, log.address(ref)) != 0

  private def nextRemoval(end: Int): Int = {
    var ref = if (unread == null) waitingRemovals.takeBelow(end) else 0
    if (ref == 0) ref = removals.takeBelow(end)
    while (ref != 0 && unreadBlockOf(keyOf(ref, entryKey)) >= 0) {
      if (!isReplaced(ref)) waitingRemovals.add(ref)
      ref = removals.takeBelow(end)
    }
    ref
  }

  /**
   * Visits every record from the ref `from` on, including removals and replaced records, in order.
   */
  def foreachSince(from: Int)(visit: (Int, Long) => Unit): Unit =
    foreachRef(log.view(), from)(visit)

  /** Whether the record is one of the newest values of its key. */
  private[engine] def isPartOfNewest(address: Long): Boolean = {
    val replacedBy = next(memory, address)
    replacedBy == 0 || isAdded(memory, log.address(replacedBy))
  }

  /** Removes all keys. */
  def clear(): Unit = {
    val rows = snapshot(NoBound)
    val key = new Bytes
    while (rows.advance()) {
      remove(keyAt(rows.address, key))
      ()
    }
  }

  private[engine] def address(ref: Int): Long = log.address(ref)

  private[engine] def keyOf(ref: Int, into: Bytes): Bytes = keyAt(log.address(ref), into)

  private[engine] def keyAt(address: Long, into: Bytes): Bytes =
    into.pointTo(null, keyAddress(address), keyLength(memory, address))

  def free(): Unit = {
    log.free()
    index.free()
    ordered.foreach(_.free())
  }

  /** `field`: the value field of the header, see [[Record.setHeader]]. */
  private def write(key: Bytes, slot: Int, value: Bytes, field: Int): Unit = {
    val valueLength = lengthOf(field)
    val size = sizeBytes(key.length, valueLength)
    val before = if (slot == Absent) 0 else index.refAt(slot)
    val ref = log.append(size)
    val address = log.address(ref)
    setHeader(memory, address, before, key.length, field)
    memory.copyRow(key.base, key.offset, null, keyAddress(address), key.length)
    if (valueLength > 0) {
      val to = valueAddress(address, key.length)
      memory.copyRow(value.base, value.offset, null, to, valueLength)
    }
    totalBytes += size
    if (before == 0) {
      ordered.foreach(_.insert(key, ref, hash))
      index.insert(hash, ref)
      if (index.isCrowded) seedIndex()
    } else {
      val old = log.address(before)
      if (valueLength != Removed && (field & Added) != 0) liveKeys -= 1
      else if (Record.valueLength(memory, old) != Removed) forget(old)
      setNext(memory, old, ref)
      index.set(slot, hash, ref)
    }
    if (valueLength == Removed) removals.add(ref)
    else {
      liveKeys += 1
      liveBytes += size
    }
  }

  private def isKnown(slot: Int): Boolean = slot != Absent &&
    valueLength(memory, log.address(index.refAt(slot))) != Removed

  private def checkSize(key: Bytes, value: Bytes): Unit =
    if (key.length.toLong + value.length > Table.MaxRowBytes) {
      throw Errors.rowTooLarge(name, key.length.toLong + value.length, Table.MaxRowBytes)
    }

  /** Subtracts a key with all its values from the totals. */
  private def forget(newest: Long): Unit = {
    liveKeys -= 1
    var at = newest
    while (isAdded(memory, at)) {
      liveBytes -= sizeBytes(memory, at)
      at = log.address(prev(memory, at))
    }
    liveBytes -= sizeBytes(memory, at)
  }

  /** The hash of a key in the index. */
  def hashOf(key: Bytes): Int =
    if (isSeeded) limit.seeded.hash32(memory, key.base, key.offset, key.length)
    else hashInFiles(key)

  private def hashInFiles(key: Bytes): Int =
    KeyHash.hash32(memory, key.base, key.offset, key.length)

  /** Changes the index to the seeded hash, once. */
  private def seedIndex(): Unit = if (!isSeeded) {
    isSeeded = true
    val key = new Bytes
    def seeded(ref: Int) = hashOf(keyOf(ref, key))
    index.rehash(seeded)
    ordered.foreach(_.rehash(seeded))
  }

  /** The slot of the key, or [[HashIndex.Absent]]. */
  private def probe(key: Bytes): Int = {
    hash = hashOf(key)
    val slot = index.find(hash, key, this)
    if (slot == Absent && unread != null) probeUnread(key) else slot
  }

  private def probeUnread(key: Bytes): Int = {
    val block = unreadBlockOf(key)
    if (block < 0) Absent
    else {
      if (unread.isSparse(block)) loadKey(block, key) else load(block)
      hash = hashOf(key)
      probeTaken(key)
    }
  }

  /** The unread block of the base in whose range the key is; -1 if it has been loaded. */
  private def unreadBlockOf(key: Bytes): Int =
    if (unread == null) -1 else unread.blockOf(hashInFiles(key))

  /** Like [[probe]], among the records in the log, with the current hash. */
  private def probeTaken(key: Bytes): Int = index.findByTags(hash, key, this)

  /**
   * Adds the rows of a block to the log, before all records that were replayed or written since.
   */
  private def load(block: Int): Unit = {
    loadRows(block)
    verifyTotals()
  }

  /** Adds the rows of one key of a block to the log. */
  private def loadKey(block: Int, key: Bytes): Unit = {
    index.reserve(index.size + 2L)
    unread.loadKey(block, key)
  }

  private def loadRows(block: Int): Unit = {
    // One more than it has: the caller may have reserved space for its own key.
    index.reserve(index.size + unread.recordsOf(block).toLong + 1)
    unread.load(block)
  }

  private def insert(record: BlockDecoder, ref: Int, fileHash: Int): Unit = {
    val (key, value) = (record.key, record.value)
    val field = value.length | (if (record.operation == RecordOperation.Merge) Added else 0)
    val address = log.address(ref)
    hash = if (isSeeded) hashOf(key) else fileHash
    val slot = probeTaken(key)
    setHeader(memory, address, 0, key.length, field)
    memory.copyRow(key.base, key.offset, null, keyAddress(address), key.length)
    val to = valueAddress(address, key.length)
    if (value.length > 0) memory.copyRow(value.base, value.offset, null, to, value.length)
    val isNewest = slot == Absent ||
      link(ref, address, index.refAt(slot), slot)
    if (isNewest) {
      if (!isAdded(memory, address)) unreadKeys -= 1
      unreadBytes -= sizeBytes(memory, address)
    }
    if (slot == Absent) {
      index.insert(hash, ref)
      ordered.foreach { entries =>
        entries.reserve()
        entries.insert(key, ref, hash)
      }
      if (index.isCrowded) seedIndex()
    }
  }

  /**
   * Links a record of the base with an earlier or a later record of the same key. Returns whether
   * its value is one of the newest values of the key.
   */
  private def link(ref: Int, address: Long, known: Int, slot: Int): Boolean = {
    // The oldest of the later records, if there are any.
    var after = 0
    var before = known
    while (before != 0 && Integer.compareUnsigned(before, ref) > 0) {
      after = before
      before = prev(memory, log.address(before))
    }
    setPrev(memory, address, before)
    if (before != 0) setNext(memory, log.address(before), ref)
    if (after == 0) index.set(slot, hash, ref)
    else {
      setNext(memory, address, after)
      setPrev(memory, log.address(after), ref)
    }
    after == 0 && (before == 0 || isAdded(memory, address))
  }

  override def holds(ref: Int, key: Bytes): Boolean = {
    val address = log.address(ref)
    keyLength(memory, address) == key.length &&
    memory.same(key.base, key.offset, null, keyAddress(address), key.length)
  }

  private def foreachRef(view: PagedLog.View, from: Int)(visit: (Int, Long) => Unit): Unit = {
    var ref = view.skip(from)
    while (ref != view.end) {
      val address = view.address(ref)
      val size = sizeBytes(memory, address)
      visit(ref, address)
      ref = view.skip(ref + (size >>> 3))
    }
  }

}

object Table {

  /** Largest total size of key and value in one record. */
  val MaxRowBytes: Long = 512L << 20

  /** A version of a table: the end of its log, and its totals. */
  final case class Mark(end: Int, keys: Long, liveBytes: Long, totalBytes: Long)

  object Mark {

    /** The initial mark of every table. */
    val Empty: Mark = Mark(PagedLog.FirstRef, 0L, 0L, 0L)
  }
}
