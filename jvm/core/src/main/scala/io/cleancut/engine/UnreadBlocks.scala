package io.cleancut.engine

import java.util.BitSet

import io.cleancut.engine.memory.{Bytes, KeyHash, Memory}
import io.cleancut.format.frame.{BaseFrame, BlockPlace, BlockScratch}

/**
 * The unread blocks of one family of a base. Each block has a reserved range in the log, before all
 * later records, so that the order of refs stays the order of time. Its memory is allocated when
 * the block is loaded. No two blocks share a hash.
 *
 * The rows of a few keys can be loaded without the other rows of their blocks ([[loadKey]]). Their
 * refs are those that they have in the complete block, so a later [[load]] adds the other rows.
 *
 * For the thread that writes the table.
 */
final private[engine] class UnreadBlocks(
    memory: Memory,
    log: PagedLog,
    frame: BaseFrame,
    places: Array[BlockPlace],
    sparse: SparseReads,
    target: UnreadBlocks.Target
) {
  private val refs = reserve()
  private val read = new BitSet(places.length)
  private val records = new BlockDecoder(frame.damaged, isBase = true)

  // Hashes of the keys in the block that is being read, by the number of the record.
  private var recordHashes = Array.emptyIntArray
  private var left = places.length

  // Records of each unread block that have been loaded alone, by their number; null if none.
  private val alone = new Array[BitSet](places.length)
  private val requests = new Array[Int](places.length)
  private var requestsLeft = (places.length * sparse.share).toInt

  /** A ref above all records of the base. */
  val end: Int = log.end

  for (i <- 1 until places.length)
    if (Integer.compareUnsigned(hashes(i - 1).lastHash, hashes(i).firstHash) >= 0) {
      throw frame.damaged(s"blocks ${places(i - 1).ordinal} and ${places(i).ordinal} share hashes")
    }

  def isEmpty: Boolean = left == 0

  /** Number of blocks that have not been loaded completely. */
  def size: Int = left

  /** The unread block of a key with this hash; -1 if there is none. */
  def blockOf(hash: Int): Int = {
    var low = 0
    var high = places.length - 1
    while (low < high) {
      val middle = (low + high) >>> 1
      if (Integer.compareUnsigned(hashes(middle).lastHash, hash) < 0) low = middle + 1
      else high = middle
    }
    val isWithin = Integer.compareUnsigned(hash, hashes(low).firstHash) >= 0 &&
      Integer.compareUnsigned(hash, hashes(low).lastHash) <= 0
    if (isWithin && !read.get(low)) low else -1
  }

  /** The next unread block in the order of the base; there must be one. */
  def first: Int = read.nextClearBit(0)

  def recordsOf(block: Int): Int = places(block).records

  /** Whether requests for keys of this block are so rare that [[loadKey]] is cheaper. */
  def isSparse(block: Int): Boolean = requestsLeft > 0 && requests(block) < sparse.requestsPerBlock

  /**
   * Loads the records of one key, as [[load]] does, and no others: the block remains unread. The
   * key must not have been loaded.
   */
  def loadKey(block: Int, key: Bytes): Unit = {
    requests(block) += 1
    requestsLeft -= 1
    val hash = KeyHash.hash32(memory, key.base, key.offset, key.length)
    foreachRecord(block) { (number, ref) =>
      if (recordHashes(number) == hash && isRecordOf(key)) {
        log.provide(refs(block))
        if (alone(block) == null) alone(block) = new BitSet(places(block).records)
        alone(block).set(number)
        target.add(records, ref, hash)
      }
    }
  }

  private def isRecordOf(key: Bytes): Boolean = {
    val other = records.key
    other.length == key.length &&
    memory.same(key.base, key.offset, other.base, other.offset, key.length)
  }

  /**
   * Loads a block: adds each record that has not been loaded alone to the target, after the
   * complete block was compared with the index. Only the target can fail in between.
   */
  def load(block: Int): Unit = {
    val loaded = alone(block)
    foreachRecord(block) { (number, ref) =>
      if (number == 0) {
        log.provide(ref)
        expectAll(block)
      }
      if (loaded == null || !loaded.get(number)) target.add(records, ref, recordHashes(number))
    }
    alone(block) = null
    read.set(block)
    left -= 1
  }

  private def expectAll(block: Int): Unit = {
    var number = 0
    while (number < places(block).records) {
      target.expect(recordHashes(number))
      number += 1
    }
  }

  /** Visits number and ref of each record of a block, which is read and verified first. */
  private def foreachRecord(block: Int)(visit: (Int, Int) => Unit): Unit = {
    val place = places(block)
    val scratch = BlockScratch.borrow()
    try {
      frame.read(place, scratch)
      verify(place, scratch)
      records.begin(scratch.raw, place.rawBytes, place.records)
      var number = 0
      var ref = refs(block)
      while (records.advance()) {
        val sizeBytes = Record.sizeBytes(records.key.length, records.value.length)
        visit(number, ref)
        number += 1
        ref += sizeBytes >>> 3
      }
    } finally scratch.giveBack()
  }

  /** Address of a row of this block in the newest version, or 0. */
  def anyRowOf(block: Int): Long = {
    var ref = refs(block)
    val end = ref + (places(block).content.bytes >>> 3)
    while (ref != end && Record.next(memory, log.address(ref)) != 0)
      ref += Record.sizeBytes(memory, log.address(ref)) >>> 3
    if (ref == end) 0L else log.address(ref)
  }

  private def verify(place: BlockPlace, scratch: BlockScratch): Unit = {
    records.begin(scratch.raw, place.rawBytes, place.records)
    if (recordHashes.length < place.records) recordHashes = new Array[Int](place.records)
    var number = 0
    var bytes = 0L
    while (records.advance()) {
      if (records.family != place.content.family) {
        throw frame.damaged(s"block ${place.ordinal} has a record of family ${records.family}")
      }
      val (key, value) = (records.key, records.value)
      bytes += Record.sizeBytes(key.length, value.length)
      val hash = KeyHash.hash32(memory, key.base, key.offset, key.length)
      val isWithin = Integer.compareUnsigned(hash, place.content.firstHash) >= 0 &&
        Integer.compareUnsigned(hash, place.content.lastHash) <= 0
      if (!isWithin) throw frame.damaged(s"block ${place.ordinal} has a key of another block")
      recordHashes(number) = hash
      number += 1
    }
    if (bytes != place.content.bytes) {
      throw frame.damaged(s"the rows of block ${place.ordinal} take $bytes bytes")
    }
  }

  /** Reserves log ranges. Blocks share pages if they fit. */
  private def reserve(): Array[Int] = {
    val refs = new Array[Int](places.length)
    var from = 0
    while (from < places.length) {
      var until = from + 1
      var bytes = places(from).content.bytes.toLong
      while (
        until < places.length && bytes + places(until).content.bytes <= UnreadBlocks.MaxPageBytes
      ) {
        bytes += places(until).content.bytes
        until += 1
      }
      var ref = log.reserve(Math.toIntExact(bytes))
      for (i <- from until until) {
        refs(i) = ref
        ref += places(i).content.bytes >>> 3
      }
      from = until
    }
    refs
  }

  private def hashes(block: Int) = places(block).content
}

/**
 * Limits of requests for single keys of unread blocks. A request that is answered alone decodes a
 * block and discards all rows but one. Beyond the limits each request loads its block, so decoding
 * blocks repeatedly adds at most a fraction of the time of loading the complete base.
 *
 * @param requestsPerBlock
 *   largest number of requests for one block
 * @param share
 *   largest number of all requests, as a share of the number of blocks
 */
final private[engine] case class SparseReads(requestsPerBlock: Int, share: Double)

private[engine] object SparseReads {

  /**
   * A thousand random keys of a million are answered alone. The decoded blocks take a quarter of
   * the time of loading the base.
   */
  val Default: SparseReads = SparseReads(requestsPerBlock = 3, share = 0.625)
}

private[engine] object UnreadBlocks {

  /** The table to which records are added. */
  trait Target {

    /** Announces a key with this [[KeyHash]], so that accesses of the memory for it overlap. */
    def expect(hash: Int): Unit

    /** Adds a record of a key with this [[KeyHash]] at its ref. */
    def add(record: BlockDecoder, ref: Int, hash: Int): Unit
  }

  /** The first page of a log begins with an invalid ref; other pages may have several blocks. */
  private val MaxPageBytes = PagedLog.SlotBytes - 8
}
