package io.cleancut.engine

import java.util.BitSet

import io.cleancut.engine.memory.{KeyHash, Memory}
import io.cleancut.format.frame.{BaseFrame, BlockPlace, BlockScratch}

/**
 * The unread blocks of one family of a base. Each block has a reserved range in the log, before all
 * later records, so that the order of refs stays the order of time. Its memory is allocated when
 * the block is loaded. No two blocks share a hash.
 *
 * For the thread that writes the table.
 */
final private[engine] class UnreadBlocks(
    memory: Memory,
    log: PagedLog,
    frame: BaseFrame,
    places: Array[BlockPlace]
) {
  private val refs = reserve()
  private val read = new BitSet(places.length)
  private val records = new BlockDecoder(frame.damaged, isBase = true)
  private var left = places.length

  /** A ref above all records of the base. */
  val end: Int = log.end

  for (i <- 1 until places.length)
    if (Integer.compareUnsigned(hashes(i - 1).lastHash, hashes(i).firstHash) >= 0) {
      throw frame.damaged(s"blocks ${places(i - 1).ordinal} and ${places(i).ordinal} share hashes")
    }

  def isEmpty: Boolean = left == 0

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

  /**
   * Loads a block: calls `visit` with each record and its ref, after the complete block was
   * compared with the index. Only `visit` can fail in between.
   */
  def load(block: Int)(visit: (BlockDecoder, Int) => Unit): Unit = {
    val place = places(block)
    val scratch = BlockScratch.borrow()
    try {
      frame.read(place, scratch)
      verify(place, scratch)
      log.provide(refs(block))
      records.begin(scratch.raw, place.rawBytes, place.records)
      var ref = refs(block)
      while (records.advance()) {
        visit(records, ref)
        ref += Record.sizeBytes(records.key.length, records.value.length) >>> 3
      }
      read.set(block)
      left -= 1
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

private object UnreadBlocks {

  /** The first page of a log begins with an invalid ref; other pages may have several blocks. */
  private val MaxPageBytes = PagedLog.SlotBytes - 8
}
