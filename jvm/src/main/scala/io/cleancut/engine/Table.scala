package io.cleancut.engine

import io.cleancut.error.Errors

/**
 * The records of one column family of one store: a log, the hash index over it and, for families
 * that are scanned by prefix, an ordered index over the same records.
 *
 * A version of the table is an `end` of the log. Older versions stay readable, because records are
 * only ever appended, and [[rollback]] returns to one at the cost of what came after it. One thread
 * at a time; a [[snapshot]] may be read in another.
 */
final class Table(
    memory: Memory,
    account: MemoryAccount,
    name: String,
    orderedBy: Option[RankOf] = None
) {
  import Record._

  private val log = new PagedLog(account, name)
  private val index = new HashIndex(memory, account)
  private val ordered = orderedBy.map(_ => new OrderedIndex(memory, account))

  private var liveKeys = 0L
  private var liveBytes = 0L
  private var totalBytes = 0L

  /** Number of keys that the newest version holds. */
  def keys: Long = liveKeys

  /** Bytes of the log that the newest version needs, and that no version newer than it does. */
  def neededBytes: Long = liveBytes

  /** Bytes of all records in the log. */
  def appendedBytes: Long = totalBytes

  /** The ref that the next record will have, or one before it. */
  def end: Int = log.end

  def deadBytes: Long = totalBytes - liveBytes

  def mark(): Table.Mark = Table.Mark(log.end, liveKeys, liveBytes, totalBytes)

  def reserve(keys: Long): Unit = index.reserve(index.size + keys)

  /** Address of the key's record as a reader with `bound` sees it, or 0 if the key is absent. */
  def find(key: Bytes, bound: Int): Long = {
    val word = index.word(probe(key, hashOf(key)))
    var ref = HashIndex.refOf(word)
    if (ref == 0) return 0L
    var address = log.address(ref)
    while (Integer.compareUnsigned(ref, bound) >= 0) {
      ref = prev(memory, address)
      if (ref == 0) return 0L
      address = log.address(ref)
    }
    if (valueLength(memory, address) == Removed) 0L else address
  }

  def put(key: Bytes, value: Bytes): Unit = {
    if (key.length.toLong + value.length > Table.MaxRowBytes) {
      throw Errors.rowTooLarge(name, key.length.toLong + value.length, Table.MaxRowBytes)
    }
    index.reserve()
    val hash = hashOf(key)
    write(key, hash, probe(key, hash), value, value.length)
  }

  /** Removes the key; false if it was absent, in which case nothing is recorded. */
  def remove(key: Bytes): Boolean = {
    val hash = hashOf(key)
    val slot = probe(key, hash)
    val before = HashIndex.refOf(index.word(slot))
    val known = before != 0 && valueLength(memory, log.address(before)) != Removed
    if (known) write(key, hash, slot, null, Removed)
    known
  }

  /**
   * Undoes everything since `mark`. The first record that a key got since then carries the ref of
   * the record that was its newest before, so one pass forward restores the index.
   */
  def rollback(mark: Table.Mark): Unit = {
    val view = log.view()
    val key = new Bytes
    foreachRef(view, mark.end) { (ref, address) =>
      val before = prev(memory, address)
      if (before == 0 || Integer.compareUnsigned(before, mark.end) < 0) {
        key.pointTo(null, keyAddress(address), keyLength(memory, address))
        val hash = hashOf(key)
        val slot = probe(key, hash)
        if (before == 0) {
          index.delete(slot)
          ordered.foreach(_.remove(orderedBy.get.rank(key), ref))
        } else {
          index.set(slot, hash, before)
          setNext(memory, log.address(before), 0)
        }
      }
    }
    log.truncate(mark.end)
    liveKeys = mark.keys
    liveBytes = mark.liveBytes
    totalBytes = mark.totalBytes
  }

  /** The rows of the version that ends at `bound` ([[Record.NoBound]]: all so far). */
  def snapshot(bound: Int): TableSnapshot = {
    val view = log.view()
    new TableSnapshot(memory, view, if (bound == NoBound) view.end else bound)
  }

  /** What a reader in another thread needs to read the version that is there now. */
  def view(): PagedLog.View = log.view()

  /** The newest record of each key whose prefix has this rank, in the order of the index. */
  def scanRank(rank: Long, bound: Int): RankScan =
    new RankScan(memory, this, ordered.getOrElse(throw noOrder("prefix scan")), rank, bound)

  /** Visits every record from the ref `from` on, removals and replaced ones too, in order. */
  def foreachSince(from: Int)(visit: (Int, Long) => Unit): Unit =
    foreachRef(log.view(), from)(visit)

  private[engine] def address(ref: Int): Long = log.address(ref)

  def free(): Unit = {
    log.free()
    index.free()
    ordered.foreach(_.free())
  }

  private def write(key: Bytes, hash: Int, slot: Int, value: Bytes, valueLength: Int): Unit = {
    val size = sizeBytes(key.length, valueLength)
    val before = HashIndex.refOf(index.word(slot))
    val ref = log.append(size)
    val address = log.address(ref)
    setHeader(memory, address, before, key.length, valueLength)
    memory.copy(key.base, key.offset, null, keyAddress(address), key.length.toLong)
    if (valueLength > 0) {
      val to = valueAddress(address, key.length)
      memory.copy(value.base, value.offset, null, to, valueLength.toLong)
    }
    totalBytes += size
    if (before == 0) {
      ordered.foreach(_.insert(orderedBy.get.rank(key), ref))
      index.insert(slot, hash, ref)
    } else {
      val old = log.address(before)
      if (Record.valueLength(memory, old) != Removed) forget(old)
      setNext(memory, old, ref)
      index.set(slot, hash, ref)
    }
    if (valueLength != Removed) {
      liveKeys += 1
      liveBytes += size
    }
  }

  private def forget(address: Long): Unit = {
    liveKeys -= 1
    liveBytes -= sizeBytes(keyLength(memory, address), valueLength(memory, address))
  }

  private def hashOf(key: Bytes): Int =
    KeyHash.hash32(memory, key.base, key.offset, key.length)

  /** The slot that holds the key, or the empty one at which it belongs. */
  private def probe(key: Bytes, hash: Int): Int = {
    var slot = index.home(hash)
    var word = index.word(slot)
    while (word != 0L && !(HashIndex.hashOf(word) == hash && holds(HashIndex.refOf(word), key))) {
      slot = index.next(slot)
      word = index.word(slot)
    }
    slot
  }

  private def holds(ref: Int, key: Bytes): Boolean = {
    val address = log.address(ref)
    keyLength(memory, address) == key.length &&
    memory.same(key.base, key.offset, keyAddress(address), key.length)
  }

  private def foreachRef(view: PagedLog.View, from: Int)(visit: (Int, Long) => Unit): Unit = {
    var ref = view.skip(from)
    while (ref != view.end) {
      val address = view.address(ref)
      val size = sizeBytes(keyLength(memory, address), valueLength(memory, address))
      visit(ref, address)
      ref = view.skip(ref + (size >>> 3))
    }
  }

  private def noOrder(what: String): Throwable =
    Errors.unsupportedFeature(what, s"the keys of $name are not ordered")
}

object Table {

  /** The largest key and value that one record takes, together. */
  val MaxRowBytes: Long = 512L << 20

  /** A version of a table: where its log ended, and its totals then. */
  final case class Mark(end: Int, keys: Long, liveBytes: Long, totalBytes: Long) {
    def isAfter(other: Mark): Boolean = Integer.compareUnsigned(end, other.end) > 0
  }
}

/**
 * Maps a key to its place in the order of a family. Keys with the same prefix have the same rank.
 */
trait RankOf {
  def rank(key: Bytes): Long
}
