package io.cleancut.format.frame

import java.io.OutputStream
import java.nio.ByteBuffer

import io.cleancut.base.Crc
import io.cleancut.format.{FormatMagic, FrameKind, FrameLayout}

/**
 * Writes one frame to `out`: the header immediately, then each block, then the trailer in
 * [[finish]]. It neither flushes nor closes `out`.
 */
final class FrameWriter(
    kind: FrameKind,
    identity: FrameIdentity,
    compressionLevel: Int,
    out: OutputStream,
    isReferring: Boolean = false
) {
  import FrameLayout._

  private var made = 0
  private var blocks = 0
  private var records = 0L
  private var written = 0L
  private val places = Vector.newBuilder[BlockPlace]
  private var isIndexed = kind == FrameKind.Base
  private val headerCrc = writeHeader()

  /** Bytes written so far. */
  def sizeBytes: Long = written

  /**
   * Writes the first `rawLength` bytes of the scratch's raw buffer, which contain `recordCount`
   * records.
   */
  def writeBlock(scratch: BlockScratch, rawLength: Int, recordCount: Int): Unit = {
    val next = block(scratch, rawLength, recordCount)
    next.compress()
    append(next)
  }

  /**
   * Creates the block after those that were created before, to be compressed and appended in order.
   *
   * @param content
   *   content of the block, in a base whose blocks can be read individually: for all of its blocks
   */
  def block(
      scratch: BlockScratch,
      rawLength: Int,
      recordCount: Int,
      content: Option[BlockContent] = None
  ): FrameBlock = {
    require(rawLength > 0 && recordCount > 0, "a block has at least one record")
    require(rawLength <= MaxBlockBytes, s"a block of $rawLength bytes exceeds the limit of readers")
    made += 1
    new FrameBlock(made - 1, headerCrc, compressionLevel, scratch, rawLength, recordCount, content)
  }

  /** Writes a compressed block. */
  def append(block: FrameBlock): Unit = {
    require(block.number == blocks && block.storedLength > 0, "blocks must be appended in order")
    index(block)
    put(block.header, BlockHeaderBytes)
    put(block.stored, block.storedLength)
    blocks += 1
    records += block.records
  }

  /**
   * Ends the frame.
   *
   * @param keys
   *   number of live keys at this version
   * @param totals
   *   totals of each family at this version, by ID; empty if they are not known
   */
  def finish(keys: Long, totals: Map[Int, FamilyTotals] = Map.empty): Unit = {
    val index = FrameIndex(totals, if (isIndexed) places.result() else Vector.empty).toBytes
    val head = buffer(EndBytes).putInt(0).putInt(index.length).array
    val tail = buffer(TailBytes).putInt(blocks).putLong(records).putLong(keys)
    tail.putLong(written + EndBytes + index.length + TailBytes).putInt(index.length)
    val checked = ByteBuffer.wrap(tail.array, 0, TailCheckedBytes)
    val crc = Crc.ofParts(intBytes(headerCrc), wrap(head), wrap(index), checked)
    tail.putInt(crc).putInt(TrailerMagic)
    put(head, head.length)
    put(index, index.length)
    put(tail.array, TailBytes)
  }

  private def index(block: FrameBlock): Unit = block.content match {
    case Some(content) if isIndexed =>
      places += BlockPlace(
        block.number,
        written,
        block.rawLength,
        block.storedLength,
        block.records,
        content
      )
    case _ => isIndexed = false
  }

  private def writeHeader(): Int = {
    val json = identity.toJson
    val head = buffer(HeaderBytes).putInt(FormatMagic.Frame).putShort(FormatMagic.Version)
    val code = if (isReferring) FrameKind.ReferenceCode else kind.code
    head.put(code).put(CodecZstd).putInt(json.length)
    val sum = Crc.ofParts(ByteBuffer.wrap(head.array, 0, HeaderCheckedBytes), ByteBuffer.wrap(json))
    head.putInt(sum)
    put(head.array, HeaderBytes)
    put(json, json.length)
    sum
  }

  private def put(bytes: Array[Byte], length: Int): Unit = {
    out.write(bytes, 0, length)
    written += length
  }
}
