package io.cleancut.cutstore

import java.util.concurrent.atomic.LongAdder

import io.cleancut.error.Errors
import io.cleancut.format.{CutLayout, PackedFrames, PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.{Segment, WindowPart}
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectPrefix, ObjectStore, RangeResult}

/** The segments of one query, and the tables of their frames. Thread-safe. */
final class Segments private[cutstore] (root: ObjectStore) {
  import Segments._

  private val readBytes = new LongAdder

  /** Bytes of all tables that were read for cuts. */
  def bytesRead: Long = readBytes.sum

  /**
   * The frames of a segment by its table, without those of shuffle inputs.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, also if the segment is missing
   */
  def table(part: WindowPart): PackedFrames = {
    val path = pathOf(part.segment)
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    val end = part.end
    if (end.footerBytes <= 0 || end.footerBytes > end.length) {
      damaged(
        s"the cut states a footer of ${end.footerBytes} bytes, but the segment has ${end.length}"
      )
    }
    val offset = end.length - end.footerBytes
    val footer = root.getRange(ObjectKey(part.segment), offset, end.footerBytes) match {
      case RangeResult.Found(bytes) => bytes
      case RangeResult.Missing      => damaged(EpochObjects.Gone)
      case other => damaged(s"it lacks the bytes that the cut references: $other")
    }
    readBytes.add(footer.length.toLong)
    CutParts.table(path, part, footer)
  }

  /** The frames of a segment by its table; empty if it is missing. */
  def framesIn(segment: String): Seq[PlacedFrame] =
    root.head(ObjectKey(segment)).flatMap(table).fold(Seq.empty[PlacedFrame])(_._2)

  /**
   * The tables of an epoch's segments, those of the latest run first. Skips segments that another
   * owner deletes concurrently.
   *
   * @param known
   *   names of segments to skip
   */
  def ofEpoch(
      epoch: Long,
      known: collection.Set[String] = Set.empty
  ): Seq[(SegmentIdentity, Seq[PlacedFrame])] =
    root
      .list(ObjectPrefix(CutLayout.segmentsOf(epoch)))
      .filter(info => CutLayout.parseSegment(info.key.name).isDefined && !known(info.key.name))
      .toSeq
      .sortBy(_.key.name)
      .flatMap(table)
      .sortBy(-_._1.generation)

  /** All segments with the epoch in their names. */
  def keys(): Seq[(Long, ObjectKey)] = EpochObjects.keysOf(infos())

  /** The segments of the epochs in [`from`, `until`), with their epochs. */
  def infos(from: Long = 0L, until: Long = Long.MaxValue): Seq[(Long, ObjectInfo)] =
    EpochObjects.listWithEpochs(root, CutLayout.Segments, from, until)(CutLayout.parseSegment)

  /** None if the object no longer exists. */
  private def table(info: ObjectInfo): Option[(SegmentIdentity, Seq[PlacedFrame])] = {
    val path = pathOf(info.key.name)
    val guess = Math.min(TailBytes, info.sizeBytes).toInt
    for {
      head <- range(info, 0L, Math.min(HeadBytes, info.sizeBytes).toInt)
      tail <- range(info, info.sizeBytes - guess, guess)
      needed = Segment.footerBytes(path, tail, info.sizeBytes)
      footer <-
        if (needed <= tail.length) Some(tail.takeRight(needed))
        else range(info, info.sizeBytes - needed, needed)
    } yield Segment.parse(info.key.name, head, footer)
  }

  private def range(info: ObjectInfo, offset: Long, length: Int): Option[Array[Byte]] =
    root.getRange(info.key, offset, length) match {
      case RangeResult.Found(bytes) => Some(bytes)
      case RangeResult.Missing      => None
      case other                    =>
        throw new IllegalStateException(s"${info.key} changed while it was read: $other")
    }

  private def pathOf(name: String) = s"${root.location}/$name"
}

private object Segments {
  private val HeadBytes = 64L << 10
  private val TailBytes = 256L << 10
}
