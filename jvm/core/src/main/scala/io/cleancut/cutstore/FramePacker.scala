package io.cleancut.cutstore

import java.util.concurrent.CompletableFuture

import io.cleancut.cutstore.usage.WriteCounts
import io.cleancut.format.{PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame

/** Makes frames durable, many in one object. */
trait FramePacker extends AutoCloseable {

  /** None if there is no space now. */
  def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]]

  /** Writes frames immediately, in as few objects as possible; returns when they are durable. */
  def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame]

  /** Counts of written frames so far. */
  def written: WriteCounts
}
