package io.cleancut.cutstore

import java.util.concurrent.CompletableFuture

import io.cleancut.cutstore.usage.WriteCounts
import io.cleancut.format.{PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame

/** Makes frames durable, many in one object. */
trait FramePacker extends AutoCloseable {

  /** None if there is no room now. */
  def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]]

  /** Makes frames durable at once, in as few objects as they fit into; returns when they are. */
  def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame]

  /** What it has made durable so far. */
  def written: WriteCounts
}
