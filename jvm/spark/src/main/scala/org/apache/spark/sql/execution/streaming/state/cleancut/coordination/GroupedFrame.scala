package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io.ByteArrayOutputStream
import java.util.concurrent.TimeUnit

import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.{FrameFiles, PendingFrame}
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.LocalBases
import org.apache.spark.util.Utils

import io.cleancut.base.{Clock, HeldValues, StateVersion}
import io.cleancut.cutstore.SegmentPacker
import io.cleancut.cutstore.usage.Place
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.{CutLayout, FrameKind, FrameName, PlacedFrame}
import io.cleancut.format.cut.{SealedFrame, Segment}
import io.cleancut.objectstore.{ObjectKey, ObjectStore, PartSender, WriterToken}
import io.cleancut.protocol.Refusal

/**
 * A frame that is written to a segment. Depending on its size, it is sent to the driver, written to
 * one object with other frames of this process, or written to a separate object while it is
 * created, so that at most one part is in memory. [[commit]] returns when it is durable and the
 * coordinator has accepted it. For the deltas of one task, the last commit returns then, for all of
 * them ([[OperatorTask]]).
 *
 * @param ofTask
 *   task that creates it, if it is a delta
 * @param copyHere
 *   copy of a base in the local cache, which saves the next reader on this executor a fetch
 */
final private[cleancut] class GroupedFrame(
    name: FrameName,
    attempt: Long,
    delivery: FrameDelivery,
    ofTask: Option[OperatorTask],
    copyHere: Option[LocalBases.OwnBase]
) extends PendingFrame {
  import GroupedFrame._
  import delivery.{clock, root}

  // A base is written after its version.
  private val task = if (name.kind == FrameKind.Delta) ofTask else None
  private var isBegun = task.isDefined
  task.foreach(_.begin())

  private val buffer = new ByteArrayOutputStream(InitialBytes)
  private var separate = Option.empty[OwnSegment]
  private var announcedNs = 0L

  override def write(byte: Int): Unit = {
    buffer.write(byte)
    spillIfFull()
  }

  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    var from = offset
    val end = offset + length
    while (from < end) {
      val count = Math.min(end - from, PartBytes - buffer.size)
      buffer.write(bytes, from, count)
      from += count
      spillIfFull()
    }
  }

  override def commit(): Unit = {
    isBegun = false
    // A smaller base is read completely.
    val isKept = separate.isDefined || buffer.size >= FrameFiles.minOpenedBytes
    if (isKept) copyHere.foreach(_.write(buffer.toByteArray))
    try {
      task match {
        case Some(of) => of.commit(isSmall, () => made())(delivery.deliver(attempt, _, _))
        case None     => delivery.deliver(attempt, Seq(made()), Nil)
      }
      copyHere.foreach(_.keep())
    } catch {
      case e: Throwable =>
        copyHere.foreach(_.drop())
        throw e
    }
  }

  override def cancel(): Unit = {
    copyHere.foreach(_.drop())
    separate.foreach(_.abort())
    if (isBegun) {
      isBegun = false
      task.foreach(_.cancel())
    }
  }

  private def isSmall = separate.isEmpty && buffer.size <= MaxSmallBytes

  private def made(): MadeFrame = separate match {
    case Some(segment)   => MadeFrame.Placed(finish(segment))
    case None if isSmall => MadeFrame.Small(whole)
    case None            => MadeFrame.Placed(delivery.pack(whole))
  }

  private def whole = SealedFrame(name, attempt, buffer.toByteArray)

  private def spillIfFull(): Unit = if (buffer.size == PartBytes) {
    val segment = separate.getOrElse(begin())
    val bytes = buffer.toByteArray
    segment.write(bytes)
    copyHere.foreach(_.write(bytes))
    if (clock.monotonicNs() - announcedNs > RenewalNs) announce(segment.name)
    buffer.reset()
  }

  private def begin(): OwnSegment = {
    val id = StateVersion.newId(clock)
    val identity = delivery.identity(name)
    val segment = new Segment(CutLayout.segment(identity.epoch, identity.writer, id), identity)
    announce(segment.name)
    val upload = root.upload(ObjectKey(segment.name), PartBytes, WriterToken.fresh(clock))
    val begun = new OwnSegment(segment, new PartSender(upload), PartBytes)
    separate = Some(begun)
    begun
  }

  private def finish(segment: OwnSegment): PlacedFrame = {
    val (frame, bytes) = segment.finish(buffer.toByteArray, PlacedFrame(name, _, attempt))
    delivery.wrote(frame, bytes)
    frame
  }

  private def announce(segment: String): Unit =
    if (name.kind == FrameKind.Base && attempt == SealedFrame.Maintenance) {
      announcedNs = clock.monotonicNs()
      delivery.announce(name, segment)
    }
}

private[cleancut] object GroupedFrame {
  private val InitialBytes = 4 << 10

  /** Largest frame that is sent to the driver, which may hold some thousands of them. */
  private val MaxSmallBytes = 32 << 10

  private val PartBytes = 8 << 20

  /** Interval at which a writer repeats its announcement; see [[BaseLedger.PatienceNs]]. */
  private val RenewalNs = TimeUnit.MINUTES.toNanos(1)

  private val packers = new HeldValues[(String, String), SegmentPacker](recent = 0)

  /** One packer for all stores of a run in this process, which hold it. */
  def packerOf(root: ObjectStore, runId: String, clock: Clock): SegmentPacker =
    packers((root.location, runId))(new SegmentPacker(root, here.executor, clock))

  /** The location of this process. */
  def here: Place =
    Place(Option(SparkEnv.get).fold("executor")(_.executorId), Utils.localHostName())

  /**
   * The error of a task that received an unexpected answer.
   *
   * @param what
   *   the request
   */
  def errorOf(
      reply: CutsReply,
      checkpoint: String,
      epoch: Long,
      what: String
  ): CleancutException = {
    def unreachable(why: String) = Errors.coordinatorUnreachable(checkpoint, what, why)
    reply match {
      case Declined(Refusal.Fenced(owner)) => Errors.fenced(checkpoint, epoch, owner)
      case Declined(other)                 => unreachable(other.why)
      case NoQuery => unreachable("no query with this checkpoint location runs on the driver")
      case other   => unreachable(s"the answer was $other")
    }
  }
}
