package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.format.{Channels, PlacedFrame, SegmentEnd, SegmentSummary}
import io.cleancut.format.cut.Counted

/** What a coordinator knows of the segments that its next cut may name. Not thread-safe. */
final private[cleancut] class SegmentEnds {
  import SegmentEnds.Known

  private val known = mutable.HashMap.empty[String, Known]

  def note(frame: PlacedFrame): Unit = frame.segment.foreach { summary =>
    val of = known.getOrElseUpdate(frame.place.segment, new Known(summary))
    if (!Channels.isChannel(frame.name.store)) of.offsets += frame.place.offset
  }

  def of(segment: String): Option[SegmentEnd] = known.get(segment).map(_.summary.end)

  /**
   * The shortest way to say that of a segment's frames these count.
   *
   * @param offsets
   *   ascending
   */
  def counted(segment: String, offsets: Seq[Long]): Counted =
    known.get(segment) match {
      case Some(of) if of.summary.frames == offsets.size    => Counted.All
      case Some(of) if of.summary.frames == of.offsets.size =>
        val others = of.offsets.toSet -- offsets
        if (others.size < offsets.size) Counted.Except(others.toSeq.sorted)
        else Counted.Only(offsets)
      case _ => Counted.Only(offsets)
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
