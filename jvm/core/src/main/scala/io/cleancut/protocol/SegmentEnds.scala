package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.format.{Channels, PlacedFrame, SegmentEnd, SegmentSummary}
import io.cleancut.format.cut.Counted

/** The segments that the next cut of a coordinator may reference. Not thread-safe. */
final private[cleancut] class SegmentEnds {
  import SegmentEnds.Known

  private val known = mutable.HashMap.empty[String, Known]

  def note(frame: PlacedFrame): Unit = frame.segment.foreach { summary =>
    val entry = known.getOrElseUpdate(frame.place.segment, new Known(summary))
    if (!Channels.isChannel(frame.name.store)) entry.offsets += frame.place.offset
  }

  def of(segment: String): Option[SegmentEnd] = known.get(segment).map(_.summary.end)

  /**
   * The shortest description of the frames of a segment that count.
   *
   * @param offsets
   *   offsets of these frames, ascending
   */
  def counted(segment: String, offsets: Seq[Long]): Counted =
    known.get(segment) match {
      case Some(segment) if segment.summary.frames == offsets.size         => Counted.All
      case Some(segment) if segment.summary.frames == segment.offsets.size =>
        val others = segment.offsets.toSet -- offsets
        if (others.size < offsets.size) Counted.Except(others.toSeq.sorted)
        else Counted.Only(offsets)
      case _ => Counted.Only(offsets)
    }

  /** Forgets all other segments. */
  def keepOnly(segments: collection.Set[String]): Unit = {
    known.filterInPlace((segment, _) => segments(segment))
    ()
  }
}

private object SegmentEnds {
  final private class Known(val summary: SegmentSummary) {
    val offsets = mutable.Set.empty[Long]
  }
}
