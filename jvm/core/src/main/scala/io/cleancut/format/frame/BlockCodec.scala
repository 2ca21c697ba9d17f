package io.cleancut.format.frame

import java.nio.ByteBuffer

import com.github.luben.zstd.{Zstd, ZstdException}

import io.cleancut.base.Crc
import io.cleancut.format.FrameLayout

/**
 * Checks and decodes the blocks of one frame.
 *
 * @param damaged
 *   creates the error for a corrupted block
 */
final private[format] class BlockCodec(
    headerCrc: Int,
    codec: Byte,
    damaged: String => Throwable
) {
  import FrameLayout._

  /**
   * A ratio that no compressor reaches is corruption, which is detected before memory is allocated.
   */
  def checkSizes(ordinal: Int, raw: Int, stored: Int, records: Int): Unit =
    if (raw <= 0 || raw > MaxBlockBytes || stored <= 0 || stored > maxStored(raw) || records <= 0)
      throw damaged(s"the header of block $ordinal is invalid")

  /** Decodes the scratch's buffer of stored bytes, from `at` on, into the buffer of raw bytes. */
  def decode(ordinal: Int, header: Array[Byte], scratch: BlockScratch, at: Int = 0): Unit = {
    val head = wrap(header)
    val (raw, stored) = (head.getInt(0), head.getInt(4))
    val crc = BlockCodec.crcOf(headerCrc, ordinal, header, scratch.stored, at, stored)
    if (crc != head.getInt(BlockCheckedBytes)) {
      throw damaged(s"the checksum of block $ordinal is wrong")
    }
    scratch.growRaw(raw)
    val decoded =
      if (codec == CodecNone) copy(raw, stored, scratch, at)
      else unzip(raw, stored, scratch, at, ordinal)
    if (decoded != raw) throw damaged(s"block $ordinal has $decoded bytes instead of $raw")
  }

  private def unzip(raw: Int, stored: Int, scratch: BlockScratch, at: Int, ordinal: Int): Int =
    try
      scratch.decompressor.decompressByteArray(scratch.raw, 0, raw, scratch.stored, at, stored)
    catch { case e: ZstdException => throw damaged(s"block $ordinal: ${e.getMessage}") }

  private def copy(raw: Int, stored: Int, scratch: BlockScratch, at: Int): Int = {
    System.arraycopy(scratch.stored, at, scratch.raw, 0, Math.min(stored, raw))
    stored
  }

  private def maxStored(raw: Int): Long =
    if (codec == CodecNone) raw.toLong else Zstd.compressBound(raw.toLong)
}

private[format] object BlockCodec {

  /** The checksum of a block, which includes its frame and its index there. */
  def crcOf(
      headerCrc: Int,
      ordinal: Int,
      header: Array[Byte],
      stored: Array[Byte],
      offset: Int,
      length: Int
  ): Int = Crc.ofParts(
    FrameLayout.buffer(8).putInt(headerCrc).putInt(ordinal).flip(),
    ByteBuffer.wrap(header, 0, FrameLayout.BlockCheckedBytes),
    ByteBuffer.wrap(stored, offset, length)
  )
}
