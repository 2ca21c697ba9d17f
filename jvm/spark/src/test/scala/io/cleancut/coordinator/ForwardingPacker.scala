package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import io.cleancut.cutstore.FramePacker
import io.cleancut.cutstore.usage.WriteCounts
import io.cleancut.format.{PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame

/** A packer that delegates to another packer, for tests that override a method. */
class ForwardingPacker(packer: FramePacker) extends FramePacker {
  override def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]] = packer.trySubmit(run, frame)

  override def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame] =
    packer.write(run, frames)

  override def written: WriteCounts = packer.written

  override def close(): Unit = packer.close()
}
