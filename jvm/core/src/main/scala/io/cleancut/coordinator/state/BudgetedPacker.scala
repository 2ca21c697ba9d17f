package io.cleancut.coordinator.state

import java.util.concurrent.CompletableFuture

import io.cleancut.cutstore.FramePacker
import io.cleancut.cutstore.usage.WriteCounts
import io.cleancut.format.{PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame

/** Accepts frames while there is space for them until they are durable. */
final private[cleancut] class BudgetedPacker(packer: FramePacker, room: FrameRoom)
    extends FramePacker {

  override def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]] = {
    val bytes = frame.bytes.length.toLong
    if (!room.tryTake(bytes)) None
    else {
      val done = packer.trySubmit(run, frame)
      done.fold(room.give(bytes)) { placed =>
        placed.whenComplete((_, _) => room.give(bytes))
        ()
      }
      done
    }
  }

  override def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame] =
    packer.write(run, frames)

  override def written: WriteCounts = packer.written

  override def close(): Unit = {
    packer.close()
    room.close()
  }
}
