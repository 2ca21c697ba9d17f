package io.cleancut.coordinator.state

import scala.collection.mutable

import io.cleancut.format.FrameName
import io.cleancut.format.cut.SealedFrame

/**
 * Frames of an epoch whose sink seals it. Its output is invisible before the seal, so until then
 * frames need not be durable: it is sufficient that they outlive their executor. Not thread-safe.
 *
 * @param room
 *   budget of the held frames; further frames must be durable immediately
 */
final class HeldFrames(val epoch: Long, room: FrameRoom) {
  private val frames = mutable.LinkedHashMap.empty[(Long, FrameName), SealedFrame]
  private var isOpen = true

  /** Whether the frame is held until [[close]]. */
  def offer(frame: SealedFrame): Boolean = {
    val key = (frame.attempt, frame.name)
    if (!isOpen) false
    else if (frames.contains(key)) true
    else {
      val isKept = room.tryTake(frame.bytes.length.toLong)
      if (isKept) frames(key) = frame
      isKept
    }
  }

  /** The bytes of a held frame. */
  def find(attempt: Long, name: FrameName): Option[Array[Byte]] =
    frames.get((attempt, name)).map(_.bytes)

  /**
   * Returns the held frames in order, at the first call; from now on no frame is held. They can be
   * found until [[forget]], since an attempt may request one while it is being written.
   */
  def close(): Seq[SealedFrame] = {
    val kept = if (isOpen) frames.values.toSeq else Nil
    isOpen = false
    kept
  }

  /** The held frames are durable. */
  def forget(): Unit = if (!isOpen) {
    frames.clear()
    room.close()
  }
}
