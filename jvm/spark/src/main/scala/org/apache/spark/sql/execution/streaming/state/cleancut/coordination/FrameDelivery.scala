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

/** A frame of an executor: a small frame that is sent to the driver, or a durable one. */
sealed private[cleancut] trait MadeFrame

private[cleancut] object MadeFrame {
  final case class Small(frame: SealedFrame) extends MadeFrame
  final case class Placed(frame: PlacedFrame) extends MadeFrame
}

/** Delivers the frames of one run in this process to segments and to the coordinator. */
final private[cleancut] class FrameDelivery(
    val checkpoint: String,
    val runId: String,
    val root: ObjectStore,
    packer: SegmentPacker,
    val clock: Clock
) {
  import GroupedFrame.{errorOf, here}

  /**
   * Reports the results of an attempt. Returns when all of them are durable, and the coordinator
   * has accepted them.
   */
  def deliver(attempt: Long, made: Seq[MadeFrame], arrivals: Seq[Arrival]): Unit = {
    val small = made.collect { case MadeFrame.Small(frame) => frame }
    val placed = made.collect { case MadeFrame.Placed(frame) => frame }
    val all = Delivery(attempt, small, placed, arrivals, FrameDelivery.rowsRead())
    val acks = send(all)
    all.names.zip(acks).foreach { case (name, ack) => ack.foreach(check(_, name)) }
    // The driver had no space for these frames.
    val full = small.zip(acks).collect { case (frame, None) => frame }
    if (full.nonEmpty) deliver(attempt, full.map(frame => MadeFrame.Placed(pack(frame))), Nil)
  }

  /** Writes it with other frames of this process; returns when it is durable. */
  def pack(frame: SealedFrame): PlacedFrame =
    try packer.submit(identity(frame.name), frame).get()
    catch { case e: ExecutionException => throw e.getCause }

  /** A segment of this size was written without the packer. */
  def wrote(frame: PlacedFrame, bytes: Long): Unit = packer.wrote(frame, bytes)

  def identity(name: FrameName): SegmentIdentity =
    ask(Writer(checkpoint, runId)) match {
      case WriterReply(generation) =>
        SegmentIdentity(name.version.number - 1, here.executor, runId, generation)
      case other => throw refused(other, name)
    }

  /** Announces a base, whose upload may take longer than the garbage collector's margin. */
  def announce(base: FrameName, segment: String): Unit =
    ask(Announce(checkpoint, runId, segment, base.version.number)) match {
      case Noted => ()
      case other => throw refused(other, base)
    }

  private def send(made: Delivery): Seq[Option[Ack]] =
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

  private def sentBy(): SenderInfo = {
    // The coordinator counts the requests of its own process.
    val isDriver = here.executor == Place.Driver
    val requests = if (isDriver) RequestCounts.Zero else root.counts
    val at = here
    SenderInfo(Sender(at.executor, at.host, Usage(requests, packer.written)))
  }

  private def ask(message: CutsMessage): CutsReply =
    CutsClient.ask(message, clock, root.requestTimeoutMs)
}

private object FrameDelivery {

  /** Rows read by the task of this thread so far; None outside a task. */
  def rowsRead(): Option[Long] = Option(TaskContext.get()).map { task =>
    val metrics = task.taskMetrics()
    // Spark does the same at each heartbeat, and at the end of the task.
    metrics.mergeShuffleReadMetrics()
    val shuffled = metrics.shuffleReadMetrics.recordsRead
    if (shuffled > 0) shuffled else metrics.inputMetrics.recordsRead
  }
}
