package io.cleancut.format.frame

import com.github.luben.zstd.Zstd

import io.cleancut.format.FrameLayout

/**
 * A block that is added to a frame ([[FrameWriter.block]]). [[compress]] only accesses the block's
 * scratch, so it may run in any thread; then the thread that writes the frame appends the block.
 *
 * @param scratch
 *   contains the records, and belongs to the block until it has been appended
 */
final class FrameBlock private[format] (
    private[format] val number: Int,
    headerCrc: Int,
    compressionLevel: Int,
    scratch: BlockScratch,
    private[format] val rawLength: Int,
    private[format] val records: Int,
    private[format] val content: Option[BlockContent]
) {
  import FrameLayout._

  private val head = FrameLayout.buffer(BlockHeaderBytes)
  private var length = 0

  def compress(): Unit = {
    scratch.compressor.setLevel(compressionLevel)
    scratch.growStored(Math.toIntExact(Zstd.compressBound(rawLength.toLong)))
    length = scratch.compressor
      .compressByteArray(scratch.stored, 0, scratch.stored.length, scratch.raw, 0, rawLength)
    head.putInt(rawLength).putInt(length).putInt(records)
    head.putInt(sum())
    ()
  }

  private[format] def header: Array[Byte] = head.array
  private[format] def stored: Array[Byte] = scratch.stored

  /** Valid bytes of [[stored]]; 0 before the compression. */
  private[format] def storedLength: Int = length

  private def sum(): Int =
    BlockCodec.crcOf(headerCrc, number, head.array, scratch.stored, 0, length)
}
