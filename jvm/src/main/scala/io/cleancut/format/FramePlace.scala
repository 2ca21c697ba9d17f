package io.cleancut.format

import io.cleancut.{StateVersion, StoreId}

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

/** A frame that is durable, and the task attempt that made it. */
final case class PlacedFrame(name: FrameName, place: FramePlace, attempt: Long)
