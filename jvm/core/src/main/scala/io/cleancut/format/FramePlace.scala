package io.cleancut.format

import scala.collection.mutable

import io.cleancut.base.{StateVersion, StoreId}

/** Which frame of which store. */
final case class FrameName(store: StoreId, version: StateVersion, kind: FrameKind) {
  override def toString: String = s"$store $version.${kind.extension}"
}

/**
 * Where the bytes of a frame lie.
 *
 * @param segment
 *   the object's name below the root
 * @param offset
 *   in bytes, from the start of the object
 * @param length
 *   in bytes
 * @param crc
 *   CRC-32 of the frame's bytes
 */
final case class FramePlace(segment: String, offset: Long, length: Long, crc: Int)

object FramePlace {

  /**
   * Which of these lie so near to each other that one request reads them.
   *
   * @param maxGap
   *   between two of them, in bytes
   * @param maxLength
   *   of all, in bytes, unless one is longer
   */
  def ranges(places: Seq[FramePlace], maxGap: Long, maxLength: Long): Seq[Seq[FramePlace]] =
    places.groupBy(_.segment).values.toSeq.flatMap { of =>
      val ranges = mutable.Buffer.empty[mutable.Buffer[FramePlace]]
      of.sortBy(_.offset).foreach { place =>
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
 * What is after the last frame of a segment, by which a cut names it.
 *
 * @param length
 *   of the whole object, in bytes
 * @param footerBytes
 *   of its table and trailer
 * @param crc
 *   CRC-32 of these
 */
final case class SegmentEnd(length: Long, footerBytes: Int, crc: Int)

/**
 * What who writes a cut has to know of a segment that it names.
 *
 * @param frames
 *   how many it has, those of channels aside
 */
final case class SegmentSummary(end: SegmentEnd, frames: Int)

/**
 * A frame that is durable.
 *
 * @param attempt
 *   the task attempt that made it
 * @param segment
 *   in which it lies; None where nothing more than its name is known
 */
final case class PlacedFrame(
    name: FrameName,
    place: FramePlace,
    attempt: Long,
    segment: Option[SegmentSummary] = None
)

/** Who wrote a segment, and in which epoch it was first wanted. */
final case class SegmentIdentity(epoch: Long, writer: String, runId: String, generation: Long)
