package io.cleancut.format.frame

import java.util.concurrent.ArrayBlockingQueue

import com.github.luben.zstd.{ZstdCompressCtx, ZstdDecompressCtx}

import io.cleancut.format.FrameLayout

/**
 * The buffers and codec contexts for reading or writing one frame. Creating them costs more than a
 * small commit, so they are pooled: a frame borrows one and returns it.
 */
final class BlockScratch private {
  private[format] val compressor = new ZstdCompressCtx
  private[format] val decompressor = new ZstdDecompressCtx

  /** The raw block, filled from 0. */
  var raw: Array[Byte] = new Array[Byte](BlockScratch.InitialBytes)

  private[format] var stored: Array[Byte] = new Array[Byte](BlockScratch.InitialBytes)

  /** Grows `raw` to at least this length and keeps its content. */
  def growRaw(sizeBytes: Int): Unit =
    if (raw.length < sizeBytes) raw = java.util.Arrays.copyOf(raw, rounded(sizeBytes))

  private[format] def growStored(sizeBytes: Int): Unit =
    if (stored.length < sizeBytes) stored = new Array[Byte](rounded(sizeBytes))

  def giveBack(): Unit =
    if (raw.length + stored.length > BlockScratch.MaxKeptBytes || !BlockScratch.pool.offer(this)) {
      compressor.close()
      decompressor.close()
    }

  private def rounded(sizeBytes: Int): Int =
    Math.max(sizeBytes, Math.min(raw.length.toLong * 2, FrameLayout.MaxBlockBytes.toLong).toInt)
}

object BlockScratch {
  private val InitialBytes = 64 << 10
  private val MaxKeptBytes = 4 << 20
  private val pool =
    new ArrayBlockingQueue[BlockScratch](4 * Runtime.getRuntime.availableProcessors)

  def borrow(): BlockScratch = {
    val pooled = pool.poll()
    if (pooled != null) pooled else new BlockScratch
  }
}
