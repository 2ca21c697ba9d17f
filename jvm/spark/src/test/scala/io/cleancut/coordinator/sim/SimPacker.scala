package io.cleancut.coordinator.sim

import java.util.concurrent.CompletableFuture

import scala.collection.mutable
import scala.util.control.NonFatal

import io.cleancut.cutstore.{FramePacker, SegmentPacker}
import io.cleancut.cutstore.usage.{WriteCounter, WriteCounts}
import io.cleancut.format.{PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame
import io.cleancut.objectstore.ObjectStore

/**
 * Packs frames as the real packer does, but in an actor: the seed decides which frames share an
 * object.
 */
final class SimPacker(
    world: World,
    process: AnyRef,
    store: ObjectStore,
    writer: String,
    monitor: => AnyRef
) extends FramePacker {
  private type Waiting = (SegmentIdentity, SealedFrame, CompletableFuture[PlacedFrame])
  private val waiting = mutable.Queue.empty[Waiting]
  private val counter = new WriteCounter

  override def trySubmit(
      run: SegmentIdentity,
      frame: SealedFrame
  ): Option[CompletableFuture[PlacedFrame]] =
    if (world.random.nextInt(8) == 0) None
    else {
      val done = new CompletableFuture[PlacedFrame]
      waiting.enqueue((run, frame, done))
      world.baton.spawn("packer", process, monitor = monitor)(pack())
      Some(done)
    }

  override def write(run: SegmentIdentity, frames: Seq[SealedFrame]): Seq[PlacedFrame] =
    frames.grouped(1 + world.random.nextInt(4)).toSeq.flatMap {
      SegmentPacker.writeSegment(store, writer, world.clock, counter)(run, _)
    }

  override def written: WriteCounts = counter.now

  override def close(): Unit = ()

  private def pack(): Unit = if (waiting.nonEmpty) {
    val run = waiting.head._1
    val batch = waiting.dequeueAll(_._1 == run).toSeq
    try {
      val write = SegmentPacker.writeSegment(store, writer, world.clock, counter) _
      val placed = write(run, batch.map(_._2))
      batch.zip(placed).foreach { case ((_, _, done), place) => done.complete(place) }
    } catch { case NonFatal(e) => batch.foreach(_._3.completeExceptionally(e)) }
  }
}
