package io.cleancut.format.frame

import java.io.{ByteArrayInputStream, Closeable, EOFException}

import io.cleancut.error.CleancutException
import io.cleancut.format.FrameLayout

/**
 * A base whose blocks are read individually: header and end are read when it is opened, a block
 * when it is requested. All returned bytes have been compared with their checksums, as in
 * [[FrameReader]]; this holds only for blocks that were read. For one thread at a time.
 *
 * @param identity
 *   identity of the frame, compared with the request
 * @param keys
 *   number of keys in all families
 */
final class BaseFrame private (
    request: FrameRequest,
    source: FrameBytes,
    val identity: FrameIdentity,
    val keys: Long,
    val index: FrameIndex,
    codec: BlockCodec
) extends Closeable {
  import FrameLayout._

  /** Size of the complete frame in bytes. */
  def sizeBytes: Long = source.length

  /** See [[FrameBytes.areAvailable]]. */
  def isAtHand: Boolean = source.areAvailable

  /** See [[FrameBytes.onAvailable]]. */
  def onAvailable(action: Runnable): Unit = source.onAvailable(action)

  /** Reads and checks a block in the scratch's raw buffer. */
  def read(block: BlockPlace, scratch: BlockScratch): Unit =
    try readOnce(block, scratch)
    catch {
      case _: CleancutException if source.giveUp(block.offset, sizeOf(block)) =>
        readOnce(block, scratch)
    }

  private def sizeOf(block: BlockPlace): Long = BlockHeaderBytes.toLong + block.storedBytes

  private def readOnce(block: BlockPlace, scratch: BlockScratch): Unit = {
    codec.checkSizes(block.ordinal, block.rawBytes, block.storedBytes, block.records)
    // Reads header and content together, because each read may open the file.
    val sizeBytes = Math.addExact(BlockHeaderBytes, block.storedBytes)
    scratch.growStored(sizeBytes)
    source.read(block.offset, scratch.stored, sizeBytes)
    val header = java.util.Arrays.copyOf(scratch.stored, BlockHeaderBytes)
    val head = wrap(header)
    val isThat = head.getInt == block.rawBytes && head.getInt == block.storedBytes &&
      head.getInt == block.records
    if (!isThat) throw damaged(s"the header of block ${block.ordinal} does not match the index")
    codec.decode(block.ordinal, header, scratch, at = BlockHeaderBytes)
  }

  /** The error for inconsistent content with a valid checksum. */
  def damaged(detail: String): CleancutException = request.damaged(detail)

  override def close(): Unit = source.close()
}

object BaseFrame {
  import FrameLayout._

  /** Bytes at the end that are read first: the index of a base of ten million rows. */
  private val EndGuess = 128 << 10

  /**
   * Opens a base. None if its blocks cannot be read individually, because it has no block index, or
   * references rows of other stores. The caller then still owns the source, as after an error.
   */
  def open(request: FrameRequest, source: FrameBytes): Option[BaseFrame] =
    try openOnce(request, source)
    catch {
      case _: CleancutException if source.giveUp(0L, source.length) => openOnce(request, source)
    }

  private def openOnce(request: FrameRequest, source: FrameBytes): Option[BaseFrame] = {
    val scratch = BlockScratch.borrow()
    try {
      val reader = readHeader(request, source, scratch)
      if (reader.isReferring) None
      else {
        val (trailer, firstBlock) = readEnd(request, source, reader)
        val blocks = trailer.index.blocks
        if (blocks.isEmpty) None
        else {
          check(request, trailer, firstBlock, source.length)
          Some(
            new BaseFrame(
              request,
              source,
              reader.identity,
              trailer.keys,
              trailer.index,
              reader.blockCodec
            )
          )
        }
      }
    } finally scratch.giveBack()
  }

  private def readHeader(request: FrameRequest, source: FrameBytes, scratch: BlockScratch) = {
    def most(bytes: Long) = Math.min(bytes, source.length).toInt
    val head = take(source, 0L, most(HeaderBytes.toLong))
    val identityBytes = if (head.length < HeaderBytes) 0 else wrap(head).getInt(8)
    // The reader of the header detects a corrupted length.
    val wanted = HeaderBytes.toLong + Math.max(0, Math.min(identityBytes, MaxIdentityBytes))
    val bytes = take(source, 0L, most(wanted))
    new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
  }

  private def readEnd(
      request: FrameRequest,
      source: FrameBytes,
      reader: FrameReader
  ): (FrameTrailer, Long) = {
    val guess = take(source, source.length - Math.min(EndGuess.toLong, source.length))
    if (guess.length < EndBytes + TailBytes) throw request.damaged("it has no trailer")
    val indexBytes = wrap(guess).getInt(guess.length - 12)
    val endBytes = EndBytes.toLong + indexBytes + TailBytes
    if (indexBytes < 0 || indexBytes > MaxIndexBytes || endBytes > source.length) {
      throw request.damaged("the length of the index is invalid")
    }
    val end =
      if (endBytes <= guess.length) guess.takeRight(endBytes.toInt)
      else take(source, source.length - endBytes)
    val fields = wrap(end)
    val (isEnd, first) = (fields.getInt == 0, fields.getInt)
    if (!isEnd || first != indexBytes) throw request.damaged("the trailer references another index")
    val index = end.slice(EndBytes, EndBytes + indexBytes)
    val tail = end.takeRight(TailBytes)
    val trailer = FrameTrailer.parse(request, reader.headerCrc, index, tail, reader.sizeBytes)
    if (trailer.sizeBytes != source.length) {
      throw request.damaged("the trailer states another length")
    }
    (trailer, source.length - endBytes)
  }

  private def check(
      request: FrameRequest,
      trailer: FrameTrailer,
      endOfBlocks: Long,
      length: Long
  ): Unit = {
    val index = trailer.index
    val last = index.blocks.last
    val isWhole = index.blocks.size == trailer.blocks &&
      index.blocks.iterator.map(_.records.toLong).sum == trailer.records &&
      last.offset + BlockHeaderBytes + last.storedBytes == endOfBlocks
    if (!isWhole) throw request.damaged(s"the index does not match the frame of $length bytes")
  }

  private def take(source: FrameBytes, from: Long): Array[Byte] =
    take(source, from, Math.toIntExact(source.length - from))

  private def take(source: FrameBytes, from: Long, count: Int): Array[Byte] = {
    if (count < 0 || from + count > source.length)
      throw new EOFException(s"no $count bytes at $from")
    val bytes = new Array[Byte](count)
    source.read(from, bytes, count)
    bytes
  }
}
