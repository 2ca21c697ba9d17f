package io.cleancut.cuts

import scala.collection.mutable

import io.cleancut.channels.Channels
import io.cleancut.format.{Counted, PlacedFrame, SegmentEnd, SegmentSummary}

/** What a coordinator knows of the segments that its next cut may name. Not thread-safe. */
final private[cuts] class SegmentEnds {
  import SegmentEnds.Known

  private val known = mutable.HashMap.empty[String, Known]

  def note(frame: PlacedFrame): Unit = frame.segment.foreach { summary =>
    val of = known.getOrElseUpdate(frame.place.segment, new Known(summary))
    if (!Channels.isChannel(frame.name.store)) of.offsets += frame.place.offset
  }

  def of(segment: String): Option[SegmentEnd] = known.get(segment).map(_.summary.end)

  /** The shortest way to say that of a segment's frames these count. */
  def counted(segment: String, offsets: Set[Long]): Counted = {
    val others = known.get(segment).fold(Set.empty[Long])(_.offsets.toSet -- offsets)
    val count = offsets.size + others.size
    val areAllKnown = known.get(segment).exists(_.summary.frames == count)
    if (areAllKnown && others.isEmpty) Counted.All
    else if (areAllKnown && others.size < offsets.size) Counted.Except(others.toSeq.sorted)
    else Counted.Only(offsets.toSeq.sorted)
  }

  /** Forgets all segments but these. */
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
