package io.cleancut.coordinator.state

import scala.collection.mutable

import io.cleancut.format.FrameName
import io.cleancut.format.cut.SealedFrame

/**
 * Frames of an epoch whose sink seals it. Nothing of that epoch can be seen before, so they need
 * not be durable earlier: it is enough that they outlive their executor. Not thread-safe.
 *
 * @param room
 *   for what is kept; frames beyond it are made durable at once
 */
final class HeldFrames(val epoch: Long, room: FrameRoom) {
  private val frames = mutable.LinkedHashMap.empty[(Long, FrameName), SealedFrame]
  private var isOpen = true

  /** Whether the frame is kept until [[close]]. */
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

  /** The bytes of a frame that is kept. */
  def find(attempt: Long, name: FrameName): Option[Array[Byte]] =
    frames.get((attempt, name)).map(_.bytes)

  /**
   * What was kept, in its order, the first time; from now on nothing is. Until [[forget]] it is
   * found, since an attempt may ask for it while it is being written.
   */
  def close(): Seq[SealedFrame] = {
    val kept = if (isOpen) frames.values.toSeq else Nil
    isOpen = false
    kept
  }

  /** What was kept is durable. */
  def forget(): Unit = if (!isOpen) {
    frames.clear()
    room.close()
  }
}
