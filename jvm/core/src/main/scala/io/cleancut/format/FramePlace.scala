package io.cleancut.format

import scala.collection.mutable

import io.cleancut.base.{StateVersion, StoreId}

/** The identity of a frame. */
final case class FrameName(store: StoreId, version: StateVersion, kind: FrameKind) {
  override def toString: String = s"$store $version.${kind.extension}"
}

/**
 * The location of a frame.
 *
 * @param segment
 *   object name below the root
 * @param offset
 *   bytes from the start of the object
 * @param length
 *   bytes
 * @param crc
 *   CRC-32 of the frame's bytes
 */
final case class FramePlace(segment: String, offset: Long, length: Long, crc: Int)

object FramePlace {

  /**
   * Groups frames that are close enough to be read with one request.
   *
   * @param maxGap
   *   largest gap between two of them in bytes
   * @param maxLength
   *   largest total in bytes, unless a single frame is longer
   */
  def ranges(places: Seq[FramePlace], maxGap: Long, maxLength: Long): Seq[Seq[FramePlace]] =
    places.groupBy(_.segment).values.toSeq.flatMap { inSegment =>
      val ranges = mutable.Buffer.empty[mutable.Buffer[FramePlace]]
      inSegment.sortBy(_.offset).foreach { place =>
        val isNear = ranges.lastOption.exists { range =>
          val end = range.last.offset + range.last.length
          place.offset - end <= maxGap &&
          place.offset + place.length - range.head.offset <= maxLength
        }
        if (isNear) ranges.last += place else ranges += mutable.Buffer(place)
      }
      ranges.map(_.toSeq)
    }
}

/**
 * The end of a segment, which identifies it in a cut.
 *
 * @param length
 *   length of the complete object in bytes
 * @param footerBytes
 *   length of its table and trailer
 * @param crc
 *   CRC-32 of its table and trailer
 */
final case class SegmentEnd(length: Long, footerBytes: Int, crc: Int)

/**
 * The properties of a segment that a cut contains.
 *
 * @param frames
 *   number of its frames, without those of shuffle inputs
 */
final case class SegmentSummary(end: SegmentEnd, frames: Int)

/**
 * A durable frame.
 *
 * @param attempt
 *   task attempt that created it
 * @param segment
 *   summary of its segment; None if only the name is known
 */
final case class PlacedFrame(
    name: FrameName,
    place: FramePlace,
    attempt: Long,
    segment: Option[SegmentSummary] = None
)

/** The writer of a segment, and the epoch for which it was first written. */
final case class SegmentIdentity(epoch: Long, writer: String, runId: String, generation: Long)
