package io.cleancut.format.frame

import java.io.InputStream
import java.nio.BufferUnderflowException

import scala.util.control.NonFatal

import io.cleancut.base.{Crc, StateVersion, StoreId}
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.{FormatMagic, FrameKind, FrameLayout, StoreCut}

/** The identity and the name of a requested frame. */
final case class FrameRequest(
    path: String,
    store: StoreId,
    version: StateVersion,
    kind: FrameKind
) {

  /** The error for a corrupted frame. */
  def damaged(detail: String): CleancutException =
    Errors.frameCorrupted(path, store.operator, store.partition, store.name, version.number, detail)
}

/**
 * Reads one frame: [[identity]], then blocks until [[nextBlock]] returns 0, then [[trailer]]. All
 * returned data has been compared with its checksum, and the identity with the request; a mismatch
 * is an error that names the object. It does not close the stream.
 */
final class FrameReader(
    request: FrameRequest,
    in: InputStream,
    scratch: BlockScratch,
    watch: LoadWatch = LoadWatch.Off
) {
  import FrameLayout._

  private var position = 0L
  private var blocks = 0
  private var records = 0L
  private val sizes = Vector.newBuilder[(Int, Int, Int)]
  private var end: Option[FrameTrailer] = None
  private[format] var headerCrc = 0
  private var codec: Byte = CodecNone
  private var kindCode: Byte = request.kind.code
  private var firstBlock = 0L

  val identity: FrameIdentity = decoding(readHeader())
  private[format] val blockCodec = new BlockCodec(headerCrc, codec, damaged)

  /** Whether it references chains of other stores instead of containing rows: see [[sources]]. */
  def isReferring: Boolean = kindCode == FrameKind.ReferenceCode

  /** Reads a frame that [[isReferring]] to its end: the chains whose rows it has. */
  def sources(): Seq[StoreCut] = {
    val count = nextBlock()
    val bytes = java.util.Arrays.copyOf(scratch.raw, rawLength)
    if (count == 0 || nextBlock() > 0) throw damaged("its sources are not in one block")
    try ReferringBase.parse(request.store, count, bytes)
    catch {
      case e @ (_: IllegalArgumentException | _: BufferUnderflowException) =>
        throw damaged(s"its sources cannot be read: ${e.getMessage}")
    }
  }

  /**
   * Decodes the next block into the scratch's raw buffer and returns its number of records; 0 at
   * the end of the frame. [[rawLength]] is the filled length of the buffer.
   */
  def nextBlock(): Int = decoding {
    val head = read(4, "a block header")
    val raw = wrap(head).getInt
    if (raw == 0) {
      readTrailer()
      0
    } else {
      readBlock(head, raw)
    }
  }

  var rawLength: Int = 0

  /** Bytes read so far; at the end, the size of the frame. */
  def sizeBytes: Long = position

  def trailer: FrameTrailer =
    end.getOrElse(throw new IllegalStateException("the frame has not been read to its end"))

  /** The error for inconsistent content with a valid checksum. */
  def damaged(detail: String): CleancutException = request.damaged(detail)

  private def readHeader(): FrameIdentity = {
    val bytes = read(HeaderBytes, "the header")
    val head = wrap(bytes)
    FormatMagic.check(head, FormatMagic.Frame, request.path) {
      damaged("it does not begin with the magic of a frame")
    }
    kindCode = head.get
    codec = head.get
    val length = head.getInt
    headerCrc = head.getInt
    if (length < 0 || length > MaxIdentityBytes)
      throw damaged("the length of the header is invalid")
    val json = read(length, "the identity")
    if (Crc.ofParts(wrap(bytes).limit(HeaderCheckedBytes), wrap(json)) != headerCrc) {
      throw damaged("the checksum of the header is wrong")
    }
    if (codec != CodecNone && codec != CodecZstd) throw damaged(s"unknown codec $codec")
    val parsed =
      try FrameIdentity.fromJson(json)
      catch { case NonFatal(e) => throw damaged(s"the identity cannot be read: ${e.getMessage}") }
    val kind = FrameKind.inHeader(kindCode).getOrElse {
      throw damaged(s"kind $kindCode is unknown")
    }
    checkIdentity(parsed, kind)
    firstBlock = position
    parsed
  }

  private def checkIdentity(parsed: FrameIdentity, kind: FrameKind): Unit = {
    val isExpected = parsed.store == request.store && parsed.version == request.version &&
      kind == request.kind && parsed.parent.isDefined == (request.kind == FrameKind.Delta)
    if (!isExpected) {
      throw Errors.frameMisplaced(
        request.path,
        s"${request.store} ${request.version}.${request.kind.extension}",
        s"${parsed.store} ${parsed.version}.${kind.extension}"
      )
    }
  }

  private def readBlock(first: Array[Byte], raw: Int): Int = {
    val header = first ++ read(BlockHeaderBytes - 4, "a block header")
    val head = wrap(header)
    val (stored, count) = (head.getInt(4), head.getInt(8))
    blockCodec.checkSizes(blocks, raw, stored, count)
    scratch.growStored(stored)
    readInto(scratch.stored, stored, s"block $blocks")
    blockCodec.decode(blocks, header, scratch)
    watch.decoded(raw.toLong)
    rawLength = raw
    if (request.kind == FrameKind.Base) sizes += ((raw, stored, count))
    blocks += 1
    records += count
    count
  }

  private def readTrailer(): Unit = {
    val index = readIndex()
    val tail = read(TailBytes, "the trailer")
    val parsed = FrameTrailer.parse(request, headerCrc, index, tail, firstBlock)
    if (parsed.blocks != blocks || parsed.records != records || parsed.sizeBytes != position) {
      throw damaged("the trailer does not match the blocks before it")
    }
    val places =
      parsed.index.blocks.map(block => (block.rawBytes, block.storedBytes, block.records))
    if (places.nonEmpty && places != sizes.result()) {
      throw damaged("the index does not match the blocks before it")
    }
    if (in.read() >= 0) throw damaged(s"bytes follow the trailer, which ends at $position")
    end = Some(parsed)
  }

  private def readIndex(): Array[Byte] = {
    val length = wrap(read(4, "the trailer")).getInt
    if (length < 0 || length > MaxIndexBytes) throw damaged("the length of the index is invalid")
    read(length, "the index")
  }

  // Allocates memory as bytes arrive, regardless of a corrupted length.
  private def read(length: Int, what: String): Array[Byte] = {
    val bytes = downloading(in.readNBytes(length))
    advance(bytes.length, length, what)
    bytes
  }

  private def readInto(bytes: Array[Byte], length: Int, what: String): Unit =
    advance(downloading(in.readNBytes(bytes, 0, length)), length, what)

  private def decoding[A](body: => A): A = during(LoadPhase.Decode)(body)

  private def downloading[A](body: => A): A = during(LoadPhase.Download)(body)

  private def during[A](phase: LoadPhase)(body: => A): A = {
    val before = watch.enter(phase)
    val result = body
    watch.enter(before)
    result
  }

  private def advance(got: Int, length: Int, what: String): Unit = {
    position += got
    if (got < length) throw damaged(s"it ends at byte $position, within $what")
  }
}
