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

  /** The size of all tables that cuts name and that were read. */
  def bytesRead: Long = readBytes.sum

  /**
   * The frames of a segment by its table, those of channels aside.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, also where it is gone
   */
  def table(part: WindowPart): PackedFrames = {
    val path = pathOf(part.segment)
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    val end = part.end
    if (end.footerBytes <= 0 || end.footerBytes > end.length) {
      damaged(s"the cut names ${end.footerBytes} of its ${end.length} bytes")
    }
    val offset = end.length - end.footerBytes
    val footer = root.getRange(ObjectKey(part.segment), offset, end.footerBytes) match {
      case RangeResult.Found(bytes) => bytes
      case RangeResult.Missing      => damaged(EpochObjects.Gone)
      case other                    => damaged(s"it has not the bytes that the cut names: $other")
    }
    readBytes.add(footer.length.toLong)
    CutParts.table(path, part, footer)
  }

  /** Its frames by a segment's table; none where it is gone. */
  def framesIn(segment: String): Seq[PlacedFrame] =
    root.head(ObjectKey(segment)).flatMap(table).fold(Seq.empty[PlacedFrame])(_._2)

  /**
   * The tables of the segments of an epoch, of the latest run first. One that another owner of the
   * query sweeps meanwhile is not among them.
   *
   * @param known
   *   names of those that are not wanted, nor read
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

  /** Every segment, with the epoch in its name. */
  def keys(): Seq[(Long, ObjectKey)] = EpochObjects.keysOf(infos())

  /** The segments of the epochs from `from` to before `until`, with their epochs. */
  def infos(from: Long = 0L, until: Long = Long.MaxValue): Seq[(Long, ObjectInfo)] =
    EpochObjects.listWithEpochs(root, CutLayout.Segments, from, until)(CutLayout.parseSegment)

  /** None if the object is not there any more. */
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
