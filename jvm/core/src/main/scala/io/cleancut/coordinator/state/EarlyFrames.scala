package io.cleancut.coordinator.state

import java.util.concurrent.CompletableFuture

import scala.collection.mutable

import io.cleancut.format.FrameName
import io.cleancut.format.cut.SealedFrame

/**
 * Frames of the current epoch for which tasks do not wait. While the epoch lacks a required store,
 * none of its frames counts, durable or not. So it is sufficient that all are durable when the
 * commit that completes it returns. Not thread-safe.
 *
 * @param room
 *   budget of the held frames, including those that are being written
 * @param fullBytes
 *   size at which frames are written immediately, because they fill an object
 */
final class EarlyFrames(room: FrameRoom, fullBytes: Long) {
  import EarlyFrames._

  private val gathered = mutable.LinkedHashMap.empty[(Long, FrameName), SealedFrame]
  private val writes = mutable.LinkedHashSet.empty[Write]
  private var gatheredBytes = 0L
  private var leavingBytes = 0L
  private var hasFailed = false

  /** Whether the frame is held, so that its task need not wait. */
  def offer(frame: SealedFrame): Boolean = {
    val isKnown = gathered.contains(key(frame))
    // After a failed write, tasks must receive the error before more frames are held.
    val isTaken = isKnown || (!hasFailed && room.tryTake(frame.bytes.length.toLong))
    if (isTaken && !isKnown) gather(frame)
    isTaken
  }

  /** Holds a frame regardless of the limit, because it is about to be written. */
  def add(frame: SealedFrame): Unit = if (!gathered.contains(key(frame))) {
    room.take(frame.bytes.length.toLong)
    gather(frame)
  }

  private def gather(frame: SealedFrame): Unit = {
    gathered(key(frame)) = frame
    gatheredBytes += frame.bytes.length
  }

  def isEmpty: Boolean = gathered.isEmpty && writes.isEmpty

  def isFull: Boolean = gatheredBytes >= fullBytes

  /** Returns the frames to write. The caller writes them and then calls [[wrote]] or [[failed]]. */
  def take(): Write = {
    val write = new Write(gathered.values.toSeq, gatheredBytes, writes.toSeq.map(_.done))
    gathered.clear()
    gatheredBytes = 0L
    writes += write
    write
  }

  def wrote(write: Write): Unit = if (writes.remove(write)) room.give(write.bytes)

  /** The next commit writes the frames again. */
  def failed(write: Write): Unit = if (writes.remove(write)) {
    hasFailed = true
    room.give(write.bytes)
    write.frames.foreach(add)
  }

  /**
   * Returns all frames that are not durable yet, and holds none of them any longer; their space is
   * reserved until [[forget]].
   */
  def close(): Seq[SealedFrame] = {
    val left = writes.toSeq.flatMap(_.frames) ++ gathered.values
    leavingBytes += gatheredBytes + writes.iterator.map(_.bytes).sum
    writes.clear()
    gathered.clear()
    gatheredBytes = 0L
    left
  }

  /** The frames that [[close]] returned are durable. */
  def forget(): Unit = {
    room.give(leavingBytes)
    leavingBytes = 0L
  }
}

object EarlyFrames {

  /**
   * @param others
   *   writes that were in progress when this one began
   */
  final class Write(
      val frames: Seq[SealedFrame],
      val bytes: Long,
      others: Seq[CompletableFuture[Unit]]
  ) {
    val done = new CompletableFuture[Unit]

    /** This write and those in progress before it. */
    def all: CompletableFuture[Void] =
      CompletableFuture.allOf((others :+ done): _*)
  }

  private def key(frame: SealedFrame) = (frame.attempt, frame.name)
}
