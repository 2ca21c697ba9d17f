package io.cleancut.cuts

import scala.collection.mutable

import io.cleancut.format.{FrameName, SealedFrame}

/**
 * Frames of an epoch whose sink seals it. Nothing of that epoch can be seen before, so they need
 * not be durable earlier: it is enough that they outlive their executor. Not thread-safe.
 *
 * @param maxBytes
 *   what is kept at most; frames beyond it are made durable at once
 */
final class HeldFrames(val epoch: Long, maxBytes: Long) {
  private val frames = mutable.LinkedHashMap.empty[(Long, FrameName), SealedFrame]
  private var bytes = 0L
  private var isOpen = true

  /** Whether the frame is kept until [[close]]. */
  def offer(frame: SealedFrame): Boolean = {
    val key = (frame.attempt, frame.name)
    if (!isOpen) false
    else if (frames.contains(key)) true
    else if (bytes + frame.bytes.length > maxBytes) false
    else {
      frames(key) = frame
      bytes += frame.bytes.length
      true
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
  def forget(): Unit = if (!isOpen) frames.clear()
}
