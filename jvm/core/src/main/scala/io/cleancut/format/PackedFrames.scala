package io.cleancut.format

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import io.cleancut.base.{StateVersion, StoreId}

/**
 * Frames by store, with about thirty bytes each instead of hundreds for objects. The content of a
 * page, and the cached table of a segment. Immutable.
 *
 * @param segments
 *   segment names, by the index in the frames
 * @param stores
 *   ascending by [[StoreOrder]]
 * @param ends
 *   end of each store's frames in `bytes`
 * @param start
 *   start of the first store's frames
 */
final class PackedFrames private (
    val segments: IndexedSeq[String],
    val stores: IndexedSeq[StoreId],
    counts: Array[Int],
    ends: Array[Int],
    bytes: Array[Byte],
    start: Int
) {

  /** Approximate size in memory. */
  def sizeBytes: Long = bytes.length.toLong + stores.size.toLong * PackedFrames.BytesPerStore

  /** The frames of a store, ascending by version; empty if it has none. */
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
   *   ascending by store and version
   */
  def of(frames: Seq[(StoreId, Seq[Chains.Frame])]): PackedFrames = {
    val out = new ByteArrayOutputStream(FirstBytes)
    val indexOf = indexes(frames)
    val ends = frames.map { case (_, chain) =>
      writeFrames(out, chain, indexOf)
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

  /** See `docs/FORMAT.md`, "Pages". */
  private[format] def encode(frames: Seq[(StoreId, Seq[Chains.Frame])]): Array[Byte] = {
    val out = new ByteArrayOutputStream(FirstBytes)
    val indexOf = indexes(frames)
    Varint.write(out, indexOf.size.toLong)
    indexOf.keysIterator.foreach(Varint.writeText(out, _))
    Varint.write(out, frames.size.toLong)
    frames.foreach { case (store, chain) =>
      out.writeBytes(FrameLayout.buffer(12).putLong(store.operator).putInt(store.partition).array)
      Varint.writeText(out, store.name)
      Varint.write(out, chain.size.toLong)
    }
    frames.foreach { case (_, chain) => writeFrames(out, chain, indexOf) }
    out.toByteArray
  }

  /** The indexes of segment names, in the order of their first use. */
  private def indexes(frames: Seq[(StoreId, Seq[Chains.Frame])]) = {
    val indexOf = mutable.LinkedHashMap.empty[String, Int]
    for ((_, chain) <- frames; (_, _, place) <- chain)
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

  /** Throws `IllegalArgumentException` or `BufferUnderflowException` if the bytes are invalid. */
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
    val ends = counts.map { frameCount =>
      var before = 0L
      for (_ <- 0 until frameCount) before = skipFrame(in, names.size, before)
      in.position
    }
    require(!in.hasRemaining, s"${in.remaining} bytes follow its frames")
    new PackedFrames(names, stores, counts, ends, bytes, start)
  }

  private def ascend(stores: Seq[StoreId]) =
    stores.iterator.zip(stores.iterator.drop(1)).forall { case (a, b) => StoreOrder.lt(a, b) }

  /**
   * The count of elements with at least one byte each, so that a corrupted count allocates no
   * memory.
   */
  private def count(in: ByteBuffer): Int = {
    val count = Varint.read(in)
    require(count <= in.remaining, s"$count elements in ${in.remaining} bytes")
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

  /** Checks the assumptions of [[readFrame]], and returns the version. */
  private def skipFrame(in: ByteBuffer, segments: Int, before: Long): Long = {
    FrameKind.coded(in.get)
    val segment = Varint.read(in)
    require(segment < segments, s"it has no segment $segment")
    val number = before + Varint.read(in)
    require(number > 0, s"a frame has version $number")
    in.position(in.position + IdBytes)
    Varint.read(in)
    require(Varint.read(in) > 0, "a frame has no bytes")
    in.getInt
    number
  }
}

/** Numbers from 0 to 2^63^-1, with seven bits per byte, the lowest first (LEB128). */
private[format] object Varint {
  private val Bits = 7
  private val MaxBits = 63

  def write(out: ByteArrayOutputStream, number: Long): Unit = {
    require(number >= 0, s"$number cannot be encoded")
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
    // Throws if the bytes are no valid text, instead of replacing characters.
    UTF_8.newDecoder.decode(ByteBuffer.wrap(bytes)).toString
  }
}
