package io.cleancut.format

import java.io.OutputStream
import java.util.zip.CRC32

import com.github.luben.zstd.Zstd

/**
 * Writes one frame to `out`: the header at once, then each block, then, with [[finish]], the
 * trailer. It neither flushes nor closes `out`.
 */
final class FrameWriter(
    kind: FrameKind,
    identity: FrameIdentity,
    compressionLevel: Int,
    out: OutputStream
) {
  import FrameLayout._

  private val crc = new CRC32
  private var blocks = 0
  private var records = 0L
  private var written = 0L
  private val headerCrc = writeHeader()

  /** Bytes written so far. */
  def sizeBytes: Long = written

  /**
   * Writes the first `rawLength` bytes of the scratch's raw buffer, which hold `recordCount`
   * records.
   */
  def writeBlock(scratch: BlockScratch, rawLength: Int, recordCount: Int): Unit = {
    require(rawLength > 0 && recordCount > 0, "a block holds at least one record")
    scratch.compressor.setLevel(compressionLevel)
    scratch.growStored(Math.toIntExact(Zstd.compressBound(rawLength.toLong)))
    val stored = scratch.stored
    val length = scratch.compressor
      .compressByteArray(stored, 0, stored.length, scratch.raw, 0, rawLength)
    val head = buffer(BlockHeaderBytes).putInt(rawLength).putInt(length).putInt(recordCount)
    head.putInt(blockCrc(head.array, stored, length))
    put(head.array, BlockHeaderBytes)
    put(stored, length)
    blocks += 1
    records += recordCount
  }

  /** Ends the frame; `keys` is the number of live keys at this version. */
  def finish(keys: Long): Unit = {
    val trailer = buffer(TrailerBytes).putInt(0).putInt(blocks).putLong(records).putLong(keys)
    trailer.putLong(written + TrailerBytes)
    crc.reset()
    updateWithInt(headerCrc)
    crc.update(trailer.array, 0, TrailerCheckedBytes)
    trailer.putInt(crc.getValue.toInt).putInt(TrailerMagic)
    put(trailer.array, TrailerBytes)
  }

  private def writeHeader(): Int = {
    val json = identity.toJson
    val head = buffer(HeaderBytes).putInt(HeaderMagic).putShort(FormatVersion)
    head.put(kind.code).put(CodecZstd).putInt(json.length)
    crc.update(head.array, 0, HeaderCheckedBytes)
    crc.update(json)
    val sum = crc.getValue.toInt
    head.putInt(sum)
    put(head.array, HeaderBytes)
    put(json, json.length)
    sum
  }

  private def blockCrc(head: Array[Byte], stored: Array[Byte], length: Int): Int = {
    crc.reset()
    updateWithInt(headerCrc)
    updateWithInt(blocks)
    crc.update(head, 0, BlockCheckedBytes)
    crc.update(stored, 0, length)
    crc.getValue.toInt
  }

  private def updateWithInt(value: Int): Unit = crc.update(buffer(4).putInt(value).flip())

  private def put(bytes: Array[Byte], length: Int): Unit = {
    out.write(bytes, 0, length)
    written += length
  }
}
