package io.cleancut.format

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import io.cleancut.base.{StateVersion, StoreId}

/**
 * Frames by store, some thirty bytes each instead of the hundreds that objects take. What a page
 * holds, and what this process keeps of the table of a segment. Immutable.
 *
 * @param segments
 *   by the index that stands in the frames
 * @param stores
 *   ascending by [[StoreOrder]]
 * @param ends
 *   where the frames of each store end in `bytes`
 * @param start
 *   where those of the first begin
 */
final class PackedFrames private (
    val segments: IndexedSeq[String],
    val stores: IndexedSeq[StoreId],
    counts: Array[Int],
    ends: Array[Int],
    bytes: Array[Byte],
    start: Int
) {

  /** What it takes of memory, about. */
  def sizeBytes: Long = bytes.length.toLong + stores.size.toLong * PackedFrames.BytesPerStore

  /** The frames of a store, in ascending order of their versions; none if it has none. */
  def of(store: StoreId): Seq[Chains.Frame] = {
    val at = stores.search(store)(StoreOrder)
    at match {
      case scala.collection.Searching.Found(index) => framesAt(index)
      case _                                       => Nil
    }
  }

  def all: Iterator[(StoreId, Seq[Chains.Frame])] =
    stores.indices.iterator.map(index => stores(index) -> framesAt(index))

  private def framesAt(index: Int): Seq[Chains.Frame] = {
    val from = if (index == 0) start else ends(index - 1)
    val in = FrameLayout.wrap(bytes).position(from).limit(ends(index))
    var before = 0L
    Vector.fill(counts(index)) {
      val frame = PackedFrames.readFrame(in, segments, before)
      before = frame._2.number
      frame
    }
  }
}

object PackedFrames {
  private val BytesPerStore = 48
  private val IdBytes = 16
  private val FirstBytes = 64 << 10

  /**
   * @param frames
   *   ascending by their stores, and those of each by their versions
   */
  def of(frames: Seq[(StoreId, Seq[Chains.Frame])]): PackedFrames = {
    val out = new ByteArrayOutputStream(FirstBytes)
    val indexOf = indexes(frames)
    val ends = frames.map { case (_, of) =>
      writeFrames(out, of, indexOf)
      out.size
    }
    new PackedFrames(
      indexOf.keysIterator.toVector,
      frames.map(_._1).toVector,
      frames.map(_._2.size).toArray,
      ends.toArray,
      out.toByteArray,
      start = 0
    )
  }

  /** See `docs/FORMAT.md`, "Page". */
  private[format] def encode(frames: Seq[(StoreId, Seq[Chains.Frame])]): Array[Byte] = {
    val out = new ByteArrayOutputStream(FirstBytes)
    val indexOf = indexes(frames)
    Varint.write(out, indexOf.size.toLong)
    indexOf.keysIterator.foreach(Varint.writeText(out, _))
    Varint.write(out, frames.size.toLong)
    frames.foreach { case (store, of) =>
      out.writeBytes(FrameLayout.buffer(12).putLong(store.operator).putInt(store.partition).array)
      Varint.writeText(out, store.name)
      Varint.write(out, of.size.toLong)
    }
    frames.foreach { case (_, of) => writeFrames(out, of, indexOf) }
    out.toByteArray
  }

  /** Of the names of segments, in the order in which they come. */
  private def indexes(frames: Seq[(StoreId, Seq[Chains.Frame])]) = {
    val indexOf = mutable.LinkedHashMap.empty[String, Int]
    for ((_, of) <- frames; (_, _, place) <- of)
      indexOf.getOrElseUpdate(place.segment, indexOf.size)
    indexOf
  }

  private def writeFrames(
      out: ByteArrayOutputStream,
      frames: Seq[Chains.Frame],
      indexOf: collection.Map[String, Int]
  ): Unit = {
    var before = 0L
    frames.foreach { frame =>
      writeFrame(out, indexOf(frame._3.segment), frame, before)
      before = frame._2.number
    }
  }

  /** Throws `IllegalArgumentException` or `BufferUnderflowException` where it is no such thing. */
  private[format] def parse(bytes: Array[Byte]): PackedFrames = {
    val in = FrameLayout.wrap(bytes)
    val names = Vector.fill(count(in))(Varint.readText(in))
    val known = mutable.HashMap.empty[String, String]
    val size = count(in)
    val counts = new Array[Int](size)
    val stores = Vector.tabulate(size) { index =>
      val operator = in.getLong
      val partition = in.getInt
      val name = Varint.readText(in)
      counts(index) = count(in)
      StoreId(operator, partition, known.getOrElseUpdate(name, name))
    }
    require(ascend(stores), "its stores do not ascend")
    val start = in.position
    val ends = counts.map { of =>
      var before = 0L
      for (_ <- 0 until of) before = skipFrame(in, names.size, before)
      in.position
    }
    require(!in.hasRemaining, s"${in.remaining} bytes follow its frames")
    new PackedFrames(names, stores, counts, ends, bytes, start)
  }

  private def ascend(stores: Seq[StoreId]) =
    stores.iterator.zip(stores.iterator.drop(1)).forall { case (a, b) => StoreOrder.lt(a, b) }

  /** Of what takes a byte at least, so that a wrong one takes no memory. */
  private def count(in: ByteBuffer): Int = {
    val count = Varint.read(in)
    require(count <= in.remaining, s"$count of something in ${in.remaining} bytes")
    count.toInt
  }

  private def writeFrame(
      out: ByteArrayOutputStream,
      segment: Int,
      frame: Chains.Frame,
      before: Long
  ): Unit = {
    val (kind, version, place) = frame
    out.write(kind.code.toInt)
    Varint.write(out, segment.toLong)
    Varint.write(out, version.number - before)
    out.writeBytes(java.util.HexFormat.of.parseHex(version.id))
    Varint.write(out, place.offset)
    Varint.write(out, place.length)
    out.writeBytes(FrameLayout.buffer(4).putInt(place.crc).array)
  }

  private def readFrame(in: ByteBuffer, segments: IndexedSeq[String], before: Long) = {
    val kind = FrameKind.coded(in.get)
    val segment = segments(Varint.read(in).toInt)
    val number = before + Varint.read(in)
    val id = new Array[Byte](IdBytes)
    in.get(id)
    val version = StateVersion(number, java.util.HexFormat.of.formatHex(id))
    (kind, version, FramePlace(segment, Varint.read(in), Varint.read(in), in.getInt))
  }

  /** Checks what [[readFrame]] takes for granted; the version. */
  private def skipFrame(in: ByteBuffer, segments: Int, before: Long): Long = {
    FrameKind.coded(in.get)
    val segment = Varint.read(in)
    require(segment < segments, s"it has no segment $segment")
    val number = before + Varint.read(in)
    require(number > 0, s"a frame of version $number")
    in.position(in.position + IdBytes)
    Varint.read(in)
    require(Varint.read(in) > 0, "a frame has no bytes")
    in.getInt
    number
  }
}

/** Numbers from 0 to 2^63^-1, seven bits a byte, the lowest first (LEB128). */
private[format] object Varint {
  private val Bits = 7
  private val MaxBits = 63

  def write(out: ByteArrayOutputStream, number: Long): Unit = {
    require(number >= 0, s"$number has no such form")
    var rest = number
    while (rest >= 0x80) {
      out.write((rest & 0x7f).toInt | 0x80)
      rest >>>= Bits
    }
    out.write(rest.toInt)
  }

  def read(in: ByteBuffer): Long = {
    var number = 0L
    var shift = 0
    var byte = 0
    do {
      require(shift < MaxBits, "a number of more than nine bytes")
      byte = in.get & 0xff
      number |= (byte & 0x7fL) << shift
      shift += Bits
    } while (byte >= 0x80)
    number
  }

  def writeText(out: ByteArrayOutputStream, text: String): Unit = {
    val bytes = text.getBytes(UTF_8)
    write(out, bytes.length.toLong)
    out.writeBytes(bytes)
  }

  def readText(in: ByteBuffer): String = {
    val length = read(in)
    require(length <= in.remaining, s"a text of $length in ${in.remaining} bytes")
    val bytes = new Array[Byte](length.toInt)
    in.get(bytes)
    // It throws where they are no text, and does not put another in its place.
    UTF_8.newDecoder.decode(ByteBuffer.wrap(bytes)).toString
  }
}
