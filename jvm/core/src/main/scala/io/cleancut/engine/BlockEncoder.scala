package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.format.frame.{BlockContent, BlockScratch}

/** The operations of a record in a frame. See `docs/FORMAT.md`, "Records". */
object RecordOperation {
  val Put: Byte = 1
  val Remove: Byte = 2
  val Merge: Byte = 3
}

/**
 * Encodes records of the log into the blocks of a frame.
 *
 * @param maxBytes
 *   raw size limit of a block with more than one record
 */
final class BlockEncoder(
    memory: Memory,
    queue: BlockQueue,
    targetBytes: Int = BlockEncoder.TargetBytes,
    maxBytes: Int = BlockEncoder.MaxBytes
) {
  import Record._

  private var scratch: BlockScratch = _
  private var length = 0
  private var records = 0

  // Hashes of keys that are added in hash order.
  private var inOrderOf = -1
  private var firstHash = 0
  private var lastHash = 0
  private var rowBytes = 0L

  /**
   * Adds the record at this address.
   *
   * @param asMerge
   *   whether the first value of a list is written as a merge, for which the key must have no
   *   values where the frame applies. Otherwise it is a put, as the first value of a list in a base
   */
  def add(family: Int, address: Long, asMerge: Boolean = false): Unit = {
    gather(family, address, asMerge)
    if (length >= targetBytes) flush()
  }

  private def gather(family: Int, address: Long, asMerge: Boolean): Unit = {
    val key = keyLength(memory, address)
    val value = valueLength(memory, address)
    makeRoom(key + Math.max(value, 0))
    val isRemoval = value == Removed
    putByte(
      if (isRemoval) RecordOperation.Remove
      else if (isAdded(memory, address)) RecordOperation.Merge
      else if (asMerge && isBegun(memory, address)) RecordOperation.Merge
      else RecordOperation.Put
    )
    putVarint(family)
    putVarint(key)
    if (!isRemoval) putVarint(value)
    copy(keyAddress(address), key)
    if (!isRemoval) copy(valueAddress(address, key), value)
    records += 1
  }

  /** Adds a key and its value, which need not be in the log. */
  def put(family: Int, key: Bytes, value: Bytes): Unit = {
    makeRoom(key.length + value.length)
    putByte(RecordOperation.Put)
    putVarint(family)
    putVarint(key.length)
    putVarint(value.length)
    copy(key.base, key.offset, key.length)
    copy(value.base, value.offset, value.length)
    records += 1
    if (length >= targetBytes) flush()
  }

  /**
   * Adds all records of a key's values, oldest first, given the newest of them and the key's hash.
   * Keys are added in the order of their hashes, and the keys of one family after those of another
   * with a [[flush]] in between. The rows of one hash are in one block, so that a reader finds the
   * block by the hash. If they exceed `maxBytes`, they are split over several blocks, and the frame
   * has no block index.
   */
  def addInOrder(family: Int, view: PagedLog.View, newest: Long, hash: Int): Unit =
    if (isAdded(memory, newest)) {
      values(memory, newest)(view.address).foreach(gatherInOrder(family, _, hash))
    } else gatherInOrder(family, newest, hash)

  private def gatherInOrder(family: Int, address: Long, hash: Int): Unit = {
    val isSameHash = records > 0 && hash == lastHash
    val isFull = length > maxBytes - maxBytesOf(address)
    if (isFull || (length >= targetBytes && !isSameHash)) close(isSplit = isSameHash)
    if (records == 0) firstHash = hash
    lastHash = hash
    inOrderOf = family
    gather(family, address, asMerge = false)
    rowBytes += sizeBytes(memory, address)
  }

  private def maxBytesOf(address: Long): Int =
    BlockEncoder.MaxHeadBytes + keyLength(memory, address) +
      Math.max(valueLength(memory, address), 0)

  /** Closes the current block, if it has records. */
  def flush(): Unit = close(isSplit = false)

  /** @param isSplit whether the next block has further rows of the last hash */
  private def close(isSplit: Boolean): Unit = if (records > 0) {
    // Without a content the base has no block index and is read completely.
    val isIndexed = inOrderOf >= 0 && !isSplit && rowBytes <= BlockEncoder.MaxIndexedBytes
    val content =
      Option.when(isIndexed)(BlockContent(inOrderOf, rowBytes.toInt, firstHash, lastHash))
    queue.add(length, records, content)
    scratch = null
    length = 0
    records = 0
    rowBytes = 0L
    inOrderOf = -1
  }

  private def makeRoom(rowBytes: Int): Unit = {
    if (scratch == null) scratch = queue.scratch
    scratch.growRaw(length + BlockEncoder.MaxHeadBytes + rowBytes)
  }

  private def copy(address: Long, sizeBytes: Int): Unit = copy(null, address, sizeBytes)

  private def copy(base: AnyRef, offset: Long, sizeBytes: Int): Unit = {
    memory.copyRow(base, offset, scratch.raw, Memory.ByteArrayOffset + length, sizeBytes)
    length += sizeBytes
  }

  private def putByte(value: Byte): Unit = {
    scratch.raw(length) = value
    length += 1
  }

  private def putVarint(value: Int): Unit = {
    var rest = value
    while ((rest & ~0x7f) != 0) {
      putByte((rest | 0x80).toByte)
      rest >>>= 7
    }
    putByte(rest.toByte)
  }
}

object BlockEncoder {

  /**
   * Raw size at which a block is closed: large enough for efficient compression, small enough that
   * the raw and the stored block fit in the second-level cache.
   */
  val TargetBytes: Int = 128 << 10

  /**
   * The same for a base, whose blocks are read individually: a row that is requested costs the
   * decoding of a block. Measured with rows of 48 bytes, a base is 0.4 % larger than with blocks of
   * [[TargetBytes]].
   */
  val BaseTargetBytes: Int = 32 << 10

  /**
   * Raw size up to which the rows of one hash share a block. Larger rows have a block each; the
   * limit of a row keeps such a block below the limit of the format.
   */
  val MaxBytes: Int = 256 << 20

  /** Range of the hashes in a block, for the block index of a base. */
  private val MaxIndexedBytes = 1L << 30

  private val MaxHeadBytes = 1 + 3 * 5
}
