package io.cleancut.coordinator.state

import java.util.concurrent.CompletableFuture

import scala.collection.mutable

import io.cleancut.format.FrameName
import io.cleancut.format.cut.SealedFrame

/**
 * Frames of the epoch that is under way whose tasks do not wait for them. As long as the epoch
 * lacks a store that it must have, nothing of it counts, durable or not; so it is early enough if
 * all are durable when the commit returns that completes it. Not thread-safe.
 *
 * @param room
 *   for what is kept, that which is being written included
 * @param fullBytes
 *   what is written at once, since it fills an object
 */
final class EarlyFrames(room: FrameRoom, fullBytes: Long) {
  import EarlyFrames._

  private val gathered = mutable.LinkedHashMap.empty[(Long, FrameName), SealedFrame]
  private val writes = mutable.LinkedHashSet.empty[Write]
  private var gatheredBytes = 0L
  private var leavingBytes = 0L
  private var hasFailed = false

  /** Whether the frame is kept, so that its task need not wait. */
  def offer(frame: SealedFrame): Boolean = {
    val isKnown = gathered.contains(key(frame))
    // Once a write has failed the tasks are to hear of it, rather than more and more be kept.
    val isTaken = isKnown || (!hasFailed && room.tryTake(frame.bytes.length.toLong))
    if (isTaken && !isKnown) gather(frame)
    isTaken
  }

  /** Keeps a frame in spite of the bound, for it is about to be written. */
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

  /** What is to be written now by the caller, who then calls [[wrote]] or [[failed]]. */
  def take(): Write = {
    val write = new Write(gathered.values.toSeq, gatheredBytes, writes.toSeq.map(_.done))
    gathered.clear()
    gatheredBytes = 0L
    writes += write
    write
  }

  def wrote(write: Write): Unit = if (writes.remove(write)) room.give(write.bytes)

  /** Whoever commits next tries again. */
  def failed(write: Write): Unit = if (writes.remove(write)) {
    hasFailed = true
    room.give(write.bytes)
    write.frames.foreach(add)
  }

  /** All that is not durable yet; none of it is kept any more, and it has room until [[forget]]. */
  def close(): Seq[SealedFrame] = {
    val left = writes.toSeq.flatMap(_.frames) ++ gathered.values
    leavingBytes += gatheredBytes + writes.iterator.map(_.bytes).sum
    writes.clear()
    gathered.clear()
    gatheredBytes = 0L
    left
  }

  /** What [[close]] gave is durable. */
  def forget(): Unit = {
    room.give(leavingBytes)
    leavingBytes = 0L
  }
}

object EarlyFrames {

  /**
   * @param others
   *   those that were under way when this one began
   */
  final class Write(
      val frames: Seq[SealedFrame],
      val bytes: Long,
      others: Seq[CompletableFuture[Unit]]
  ) {
    val done = new CompletableFuture[Unit]

    /** This and what was under way before it. */
    def all: CompletableFuture[Void] =
      CompletableFuture.allOf((others :+ done): _*)
  }

  private def key(frame: SealedFrame) = (frame.attempt, frame.name)
}
