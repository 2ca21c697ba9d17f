package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.ExecutionException

import org.apache.spark.TaskContext

import io.cleancut.base.Clock
import io.cleancut.coordinator.state.{Arrival, Delivery}
import io.cleancut.cutstore.SegmentPacker
import io.cleancut.cutstore.usage.{Place, Sender, Usage}
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.{ObjectStore, RequestCounts}
import io.cleancut.protocol.{Ack, Refusal}
import io.cleancut.format.{FrameName, PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame

/** A frame that an executor has made: so small that it goes to the driver, or durable. */
sealed private[cleancut] trait MadeFrame

private[cleancut] object MadeFrame {
  final case class Small(frame: SealedFrame) extends MadeFrame
  final case class Placed(frame: PlacedFrame) extends MadeFrame
}

/** How the frames of one run come from this process into segments, and to the coordinator. */
final private[cleancut] class FrameDelivery(
    val checkpoint: String,
    val runId: String,
    val root: ObjectStore,
    packer: SegmentPacker,
    val clock: Clock
) {
  import GroupedFrame.{errorOf, here}

  /**
   * Tells what an attempt has made. Returns when all of it is durable, and the coordinator has
   * taken it.
   */
  def deliver(attempt: Long, made: Seq[MadeFrame], arrivals: Seq[Arrival]): Unit = {
    val small = made.collect { case MadeFrame.Small(frame) => frame }
    val placed = made.collect { case MadeFrame.Placed(frame) => frame }
    val all = Delivery(attempt, small, placed, arrivals, FrameDelivery.rowsRead())
    val acks = tell(all)
    all.names.zip(acks).foreach { case (name, ack) => ack.foreach(check(_, name)) }
    // There was no room for these.
    val full = small.zip(acks).collect { case (frame, None) => frame }
    if (full.nonEmpty) deliver(attempt, full.map(of => MadeFrame.Placed(pack(of))), Nil)
  }

  /** Writes it with others of this process; returns when it is durable. */
  def pack(frame: SealedFrame): PlacedFrame =
    try packer.submit(identity(frame.name), frame).get()
    catch { case e: ExecutionException => throw e.getCause }

  /** A segment was written beside the packer, of so many bytes. */
  def wrote(frame: PlacedFrame, bytes: Long): Unit = packer.wrote(frame, bytes)

  def identity(of: FrameName): SegmentIdentity =
    ask(Writer(checkpoint, runId)) match {
      case WriterReply(generation) =>
        SegmentIdentity(of.version.number - 1, here.executor, runId, generation)
      case other => throw refused(other, of)
    }

  /** A base may be on its way for longer than a sweep reckons with. */
  def announce(base: FrameName, segment: String): Unit =
    ask(Announce(checkpoint, runId, segment, base.version.number)) match {
      case Noted => ()
      case other => throw refused(other, base)
    }

  private def tell(made: Delivery): Seq[Option[Ack]] =
    ask(Deliver(checkpoint, runId, made, sentBy())) match {
      case DeliverReply(acks) => acks
      case other              => throw refused(other, made.names.head)
    }

  private def check(ack: Ack, name: FrameName): Unit = ack match {
    case Ack.Accepted | Ack.Duplicate => ()
    case Ack.Unknown(why)             => throw refused(Declined(why), name)
    case Ack.Discarded(why)           => throw refused(Declined(Refusal.Failed(why)), name)
  }

  private def refused(reply: CutsReply, name: FrameName): CleancutException =
    errorOf(reply, checkpoint, name.version.number - 1, name.toString)

  private def sentBy(): SentBy = {
    // The coordinator sees by itself what its own process asks for.
    val isDriver = here.executor == Place.Driver
    val requests = if (isDriver) RequestCounts.Zero else root.counts
    val at = here
    SentBy(Sender(at.executor, at.host, Usage(requests, packer.written)))
  }

  private def ask(message: CutsMessage): CutsReply =
    CutsClient.ask(message, clock, root.requestTimeoutMs)
}

private object FrameDelivery {

  /** By the task of this thread so far; None outside of one. */
  def rowsRead(): Option[Long] = Option(TaskContext.get()).map { task =>
    val metrics = task.taskMetrics()
    // Spark does so with each heartbeat, and when the task is over.
    metrics.mergeShuffleReadMetrics()
    val shuffled = metrics.shuffleReadMetrics.recordsRead
    if (shuffled > 0) shuffled else metrics.inputMetrics.recordsRead
  }
}
