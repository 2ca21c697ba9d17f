package io.cleancut.format.cut

import java.nio.ByteBuffer

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.github.luben.zstd.Zstd

import io.cleancut.base.Crc
import io.cleancut.error.Errors
import io.cleancut.format._

/** A frame that is not in a segment yet. */
final case class SealedFrame(name: FrameName, attempt: Long, bytes: Array[Byte])

object SealedFrame {

  /** The attempt of frames that no task wrote. */
  val Maintenance: Long = -1L
}

/**
 * One object with many frames: a header, the frames one after the other, then a table of them. See
 * `docs/FORMAT.md`, "Segment".
 *
 * @param name
 *   object name below the root
 */
final class Segment private[format] (
    val name: String,
    identity: SegmentIdentity,
    maxTableBytes: Int
) {
  import Segment._

  def this(name: String, identity: SegmentIdentity) = this(name, identity, Segment.MaxTableBytes)

  val header: Array[Byte] = encodeHeader()

  /** The complete object, and the location of each frame in it. */
  def pack(frames: Seq[SealedFrame]): (Array[Byte], Seq[PlacedFrame]) = {
    var at = header.length.toLong
    val placed = frames.map { frame =>
      val place = FramePlace(name, at, frame.bytes.length.toLong, Crc.of(frame.bytes))
      at += frame.bytes.length
      PlacedFrame(frame.name, place, frame.attempt)
    }
    val end = footer(placed)
    val out = FrameLayout.buffer(Math.toIntExact(at) + end.length).put(header)
    frames.foreach(frame => out.put(frame.bytes))
    (out.put(end).array, summed(placed, end))
  }

  /**
   * The same frames, which are all frames of the segment, with the summary of its end.
   *
   * @param footer
   *   footer of these frames
   */
  def summed(frames: Seq[PlacedFrame], footer: Array[Byte]): Seq[PlacedFrame] = {
    val length = header.length + frames.map(_.place.length).sum + footer.length
    withSummary(frames, SegmentEnd(length, footer.length, Crc.of(footer)))
  }

  /** The bytes after the last of these frames, which are adjacent. */
  def footer(frames: Seq[PlacedFrame]): Array[Byte] = {
    val table = Json.bounded(mapper, SegmentTable.of(frames), maxTableBytes).getOrElse {
      throw Errors.objectTooLarge(
        s"the table of $name",
        maxTableBytes.toLong,
        s"${frames.size} frames",
        "Run with fewer shuffle partitions."
      )
    }
    val stored = Zstd.compress(table, CompressionLevel)
    val end = header.length + frames.map(_.place.length).sum
    val out = FrameLayout.buffer(stored.length + TrailerBytes).put(stored)
    out.putInt(stored.length).putInt(table.length).putLong(end + out.capacity)
    out.putInt(footerCrc(headerCrcOf(header), out.array, stored.length))
    out.putInt(0).putInt(TrailerMagic).array
  }

  private def encodeHeader(): Array[Byte] = {
    val node = mapper.createObjectNode()
    node.put("epoch", identity.epoch).put("writer", identity.writer)
    node.put("generation", identity.generation).put("runId", identity.runId)
    val json = mapper.writeValueAsBytes(node)
    val out = FrameLayout.buffer(HeaderBytes + json.length)
    out.putInt(FormatMagic.Segment).putShort(FormatMagic.Version).putShort(0).putInt(json.length)
    out.putInt(0).put(json)
    out.putInt(HeaderCheckedBytes, headerCrcOf(out.array)).array
  }
}

object Segment {
  import Json.required

  private val TrailerMagic = 0x45534343 // "CCSE"
  private[format] val HeaderBytes = 16
  private val HeaderCheckedBytes = 12
  private val TrailerCheckedBytes = 16

  /** Limit of the uncompressed table. A greater length counts as corruption. */
  private val MaxTableBytes = 1 << 30
  private val CompressionLevel = 3
  private val mapper = new ObjectMapper

  val TrailerBytes: Int = 28

  /** Number of bytes from the start of the table to the end of the object, from its trailer. */
  def footerBytes(path: String, trailer: Array[Byte], objectBytes: Long): Int = {
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    if (trailer.length < TrailerBytes) damaged(s"it has only $objectBytes bytes")
    val end = Trailer.of(trailer)
    val stored = end.storedBytes
    if (end.magic != TrailerMagic) damaged("it does not end with the magic of a segment")
    if (end.objectBytes != objectBytes || stored <= 0 || stored > objectBytes - TrailerBytes) {
      damaged("its trailer does not match its length")
    }
    stored + TrailerBytes
  }

  /**
   * Parses the identity and the table of a segment.
   *
   * @param head
   *   first bytes of the object, at least the header
   * @param footer
   *   the last [[footerBytes]] bytes
   */
  def parse(
      name: String,
      head: Array[Byte],
      footer: Array[Byte]
  ): (SegmentIdentity, Seq[PlacedFrame]) = {
    def damaged(detail: String) = throw Errors.cutCorrupted(name, detail)
    if (head.length < HeaderBytes) damaged("its header is truncated")
    val fields = FrameLayout.wrap(head)
    FormatMagic.check(fields, FormatMagic.Segment, name) {
      Errors.cutCorrupted(name, "it does not begin with the magic of a segment")
    }
    fields.getShort
    val length = fields.getInt
    val headerCrc = fields.getInt
    if (length < 0 || length > head.length - HeaderBytes) damaged("its header is truncated")
    if (headerCrcOf(head.take(HeaderBytes + length)) != headerCrc) {
      damaged("the checksum of its header is wrong")
    }
    val trailer = Trailer.of(footer)
    val crc = footerCrc(headerCrc, footer, footer.length - TrailerBytes)
    if (crc != trailer.crc || trailer.reserved != 0) damaged("the checksum of its table is wrong")
    try {
      val identity = readIdentity(mapper.readTree(head, HeaderBytes, length))
      require(CutLayout.isSegmentOf(name, identity), s"its identity is $identity")
      val frames = readTable(name, footer)
      checkPlaces(frames, HeaderBytes.toLong + length, trailer.objectBytes - footer.length)
      val end = SegmentEnd(trailer.objectBytes, footer.length, Crc.of(footer))
      (identity, withSummary(frames, end))
    } catch { case NonFatal(e) => damaged(s"its table cannot be read: ${e.getMessage}") }
  }

  /**
   * Parses the table of a segment from its footer, which a cut references.
   *
   * @param footer
   *   last bytes of the object, as many as `end` states
   */
  def parseFooter(
      name: String,
      path: String,
      footer: Array[Byte],
      end: SegmentEnd
  ): Seq[PlacedFrame] = {
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    if (footer.length != end.footerBytes || Crc.of(footer) != end.crc) {
      damaged("its table does not match the cut")
    }
    if (footerBytes(path, footer, end.length) != footer.length) {
      damaged("its table does not begin at the offset in the cut")
    }
    if (Trailer.of(footer).reserved != 0) damaged("its trailer is invalid")
    try {
      val frames = readTable(name, footer)
      // Only the header has its length.
      frames.headOption.map(_.place.offset).foreach { first =>
        require(first >= HeaderBytes, s"the first frame is at $first")
        checkPlaces(frames, first, end.length - footer.length)
      }
      withSummary(frames, end)
    } catch { case NonFatal(e) => damaged(s"its table cannot be read: ${e.getMessage}") }
  }

  private def withSummary(frames: Seq[PlacedFrame], end: SegmentEnd) = {
    val summary = SegmentSummary(end, frames.count(frame => !Channels.isChannel(frame.name.store)))
    frames.map(_.copy(segment = Some(summary)))
  }

  private def readTable(name: String, footer: Array[Byte]): Seq[PlacedFrame] = {
    val stored = footer.length - TrailerBytes
    val raw = Trailer.of(footer).tableBytes
    require(raw >= 0 && raw <= MaxTableBytes, s"the table has $raw bytes")
    val table = new Array[Byte](raw)
    val got = Zstd.decompressByteArray(table, 0, raw, footer, 0, stored)
    require(got == raw, s"$got bytes instead of $raw")
    SegmentTable.read(name, table)
  }

  /** Checks that the frames are adjacent, up to the start of the table. */
  private def checkPlaces(frames: Seq[PlacedFrame], first: Long, end: Long): Unit = {
    val frameEnd = frames.foldLeft(first) { (at, frame) =>
      require(frame.place.offset == at, s"${frame.name} is at ${frame.place.offset}, not $at")
      at + frame.place.length
    }
    require(frameEnd == end, s"the frames end at $frameEnd and the table begins at $end")
  }

  private def headerCrcOf(header: Array[Byte]): Int = Crc.ofParts(
    ByteBuffer.wrap(header, 0, HeaderCheckedBytes),
    ByteBuffer.wrap(header, HeaderBytes, header.length - HeaderBytes)
  )

  private def footerCrc(headerCrc: Int, footer: Array[Byte], stored: Int): Int = Crc.ofParts(
    FrameLayout.intBytes(headerCrc),
    ByteBuffer.wrap(footer, 0, stored + TrailerCheckedBytes)
  )

  /** The last bytes of a segment, after its compressed table. */
  final private case class Trailer(
      storedBytes: Int,
      tableBytes: Int,
      objectBytes: Long,
      crc: Int,
      reserved: Int,
      magic: Int
  )

  private object Trailer {
    def of(end: Array[Byte]): Trailer = {
      val fields = FrameLayout.wrap(end.takeRight(TrailerBytes))
      Trailer(
        fields.getInt,
        fields.getInt,
        fields.getLong,
        fields.getInt,
        fields.getInt,
        fields.getInt
      )
    }
  }

  private def readIdentity(node: JsonNode): SegmentIdentity = SegmentIdentity(
    required(node, "epoch").asLong,
    required(node, "writer").asText,
    required(node, "runId").asText,
    required(node, "generation").asLong
  )
}
