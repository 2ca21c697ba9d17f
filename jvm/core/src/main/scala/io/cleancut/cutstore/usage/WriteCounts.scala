package io.cleancut.cutstore.usage

import java.util.concurrent.atomic.LongAdder

/** The frames that a process made durable for one query, and their objects. */
final case class WriteCounts(frames: Long, frameBytes: Long, segments: Long, segmentBytes: Long) {
  def -(earlier: WriteCounts): WriteCounts = WriteCounts(
    frames - earlier.frames,
    frameBytes - earlier.frameBytes,
    segments - earlier.segments,
    segmentBytes - earlier.segmentBytes
  )

  def +(other: WriteCounts): WriteCounts = WriteCounts(
    frames + other.frames,
    frameBytes + other.frameBytes,
    segments + other.segments,
    segmentBytes + other.segmentBytes
  )

  /** The later of two snapshots of one process, compared number by number. */
  def max(other: WriteCounts): WriteCounts = WriteCounts(
    Math.max(frames, other.frames),
    Math.max(frameBytes, other.frameBytes),
    Math.max(segments, other.segments),
    Math.max(segmentBytes, other.segmentBytes)
  )
}

object WriteCounts {
  val Zero: WriteCounts = WriteCounts(0L, 0L, 0L, 0L)
}

/** Counts writes, in any thread. */
final class WriteCounter {
  private val frames = new LongAdder
  private val frameBytes = new LongAdder
  private val segments = new LongAdder
  private val segmentBytes = new LongAdder

  /** A segment is durable, with all of its frames. */
  def wrote(frameCount: Int, bytesOfFrames: Long, bytesOfSegment: Long): Unit = {
    frames.add(frameCount.toLong)
    frameBytes.add(bytesOfFrames)
    segments.increment()
    segmentBytes.add(bytesOfSegment)
  }

  def now: WriteCounts =
    WriteCounts(frames.sum, frameBytes.sum, segments.sum, segmentBytes.sum)
}
