package io.cleancut.format

import java.util.{Arrays, HexFormat}

import io.cleancut.base.StateVersion

/**
 * The frames of a chain, with forty bytes each instead of hundreds for objects, because a driver
 * keeps the chains of all stores of its query. Versions are consecutive, and only the first frame
 * can be a base. Immutable.
 *
 * @param first
 *   version of the first frame
 * @param ids
 *   sixteen bytes each
 * @param spans
 *   offset and length of each frame
 */
final class PackedChain private (
    private val isFromBase: Boolean,
    private val first: Long,
    private val ids: Array[Byte],
    private val segments: Array[String],
    private val spans: Array[Long],
    private val crcs: Array[Int]
) extends scala.collection.immutable.AbstractSeq[Chains.Frame]
    with scala.collection.immutable.IndexedSeq[Chains.Frame]
    with Serializable {
  import PackedChain._

  override def length: Int = segments.length

  override def apply(index: Int): Chains.Frame = {
    val id = HexFormat.of.formatHex(ids, index * IdBytes, (index + 1) * IdBytes)
    val place =
      FramePlace(segments(index), spans(2 * index), spans(2 * index + 1), crcs(index))
    (kindAt(index), StateVersion(first + index, id), place)
  }

  /** The version of its base, if it begins with one. */
  def base: Option[Long] = Option.when(isFromBase)(first)

  /** Total size of its frames. */
  def sizeBytes: Long = (1 until spans.length by 2).iterator.map(spans(_)).sum

  /** Whether the other chain begins with the same frame. */
  def beginsAs(other: PackedChain): Boolean =
    isFromBase == other.isFromBase && first == other.first && spans(0) == other.spans(0) &&
      segments(0) == other.segments(0) && hasSameId(0, other, 0)

  /** The same frames with the locations in another chain, if it has these frames. */
  def placedAs(other: PackedChain): PackedChain = {
    val from = Math.max(first, other.first)
    val shared = (from to Math.min(lastNumber, other.lastNumber)).filter { number =>
      val (mine, its) = ((number - first).toInt, (number - other.first).toInt)
      kindAt(mine) == other.kindAt(its) && hasSameId(mine, other, its)
    }
    if (shared.isEmpty) this
    else {
      val chain =
        new PackedChain(isFromBase, first, ids, segments.clone, spans.clone, crcs.clone)
      shared.foreach { number =>
        val (_, version, place) = other((number - other.first).toInt)
        chain.set((number - first).toInt, version, place)
      }
      chain
    }
  }

  private def hasSameId(index: Int, other: PackedChain, at: Int) = Arrays.equals(
    ids,
    index * IdBytes,
    (index + 1) * IdBytes,
    other.ids,
    at * IdBytes,
    (at + 1) * IdBytes
  )

  /** The version of the last frame. */
  def lastNumber: Long = first + length - 1

  /** The chain with the delta of the next version appended. */
  def and(delta: Chains.Frame): PackedChain = {
    val (kind, version, place) = delta
    require(kind == FrameKind.Delta && version.number == lastNumber + 1, s"$version is not next")
    val size = length
    val chain = new PackedChain(
      isFromBase,
      first,
      Arrays.copyOf(ids, (size + 1) * IdBytes),
      Arrays.copyOf(segments, size + 1),
      Arrays.copyOf(spans, 2 * (size + 1)),
      Arrays.copyOf(crcs, size + 1)
    )
    chain.set(size, version, place)
    chain
  }

  private def kindAt(index: Int): FrameKind =
    if (index == 0 && isFromBase) FrameKind.Base else FrameKind.Delta

  private def set(index: Int, version: StateVersion, place: FramePlace): Unit = {
    HexFormat.of.parseHex(version.id).copyToArray(ids, index * IdBytes, IdBytes)
    segments(index) = place.segment
    spans(2 * index) = place.offset
    spans(2 * index + 1) = place.length
    crcs(index) = place.crc
  }
}

object PackedChain {
  private val IdBytes = 16

  /** Packs frames, which must form a chain. */
  def of(frames: Seq[Chains.Frame]): PackedChain = frames match {
    case packed: PackedChain => packed
    case _                   =>
      val size = frames.size
      val (kind, first, _) = frames.head
      val chain = new PackedChain(
        kind == FrameKind.Base,
        first.number,
        new Array[Byte](size * IdBytes),
        new Array[String](size),
        new Array[Long](2 * size),
        new Array[Int](size)
      )
      frames.iterator.zipWithIndex.foreach { case ((kind, version, place), index) =>
        require(version.number == first.number + index, s"$version is frame ${index} after $first")
        require(index == 0 || kind == FrameKind.Delta, s"a base of $version follows a frame")
        chain.set(index, version, place)
      }
      chain
  }
}
