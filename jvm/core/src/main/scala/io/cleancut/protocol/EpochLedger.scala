package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, FrameName, PlacedFrame, StoreCut, StoreOrder}
import io.cleancut.format.cut.Cut

/** The result of a reported frame. */
sealed trait Ack extends Serializable

object Ack {

  /** The frame counts, unless Spark chooses another attempt. */
  case object Accepted extends Ack

  /** The frame was reported before, at the same location. */
  case object Duplicate extends Ack

  /** The epoch is not open: the task belongs to another run, or is too late. */
  final case class Unknown(why: Refusal) extends Ack

  /** The epoch does not use the frame. */
  final case class Discarded(why: String) extends Ack
}

/**
 * The reports of one uncommitted epoch: the stores that task attempts opened, and the frames that
 * they made durable. Pure: it has no clock and makes no request.
 *
 * The unit of acceptance is a task attempt with all stores that it opened, so the sides of a join
 * never come from two attempts.
 *
 * @param previous
 *   cut before this epoch
 * @param further
 *   stores that it must have in addition to those of `previous` and those that tasks open
 */
final class EpochLedger(
    val epoch: Long,
    previous: Option[Cut],
    further: Set[StoreId] = Set.empty,
    val channels: EpochChannels = new EpochChannels
) {
  private val attempts = mutable.LinkedHashMap.empty[Long, TaskAttempt]
  // Required stores without any frame so far. Created with the first frame of the epoch, and not
  // during the commit of the previous one.
  private lazy val awaited = mutable.Set.from(before ++ further)
  private lazy val before: Vector[StoreId] = previous.fold(Vector.empty[StoreId]) { cut =>
    cut.stores.iterator.map(_.store).filterNot(Channels.isChannel).toVector.sorted(StoreOrder)
  }
  private var turn = 0L

  private def of(attempt: Long): TaskAttempt = attempts.getOrElse(attempt, TaskAttempt(attempt))

  def open(attempt: Long, store: StoreId): Unit = {
    val known = of(attempt)
    attempts(attempt) = known.copy(opened = known.opened + store)
  }

  /**
   * The attempt failed or was killed. It counts only if no other attempt is complete: if its rows
   * were cached before it failed, as in a persisted batch, the next attempt reads these rows and
   * opens no store.
   */
  def fail(attempt: Long): Unit = attempts(attempt) = of(attempt).copy(hasFailed = true)

  /** The driver holds a frame, which will be durable and acknowledged before the cut. */
  def hold(attempt: Long, frame: FrameName): Ack = keep(attempt, frame)

  /**
   * Whether the epoch has no frame of some other required store, so that it is incomplete. Not
   * known before the first cut.
   *
   * @param present
   *   store that has a frame
   */
  def lacksOtherThan(present: StoreId): Boolean =
    awaited.size > (if (awaited(present)) 1 else 0)

  /** Whether it may be complete, once all reported frames are durable. */
  def mayBeComplete: Boolean = awaited.isEmpty

  /** A frame is durable. */
  def ack(frame: PlacedFrame): Ack = note(frame) match {
    case Ack.Accepted => keep(frame.attempt, frame.name)
    // A task that repeats a report may not have received the response.
    case Ack.Duplicate => of(frame.attempt).discarded.fold[Ack](Ack.Duplicate)(Ack.Discarded)
    case refused       => refused
  }

  /** An attempt with all its frames decides on its shuffle inputs, or must follow a decision. */
  private def keep(attempt: Long, frame: FrameName): Ack = {
    val before = of(attempt)
    val known = before.copy(kept = before.kept.updated(frame.store, frame))
    attempts(attempt) = known
    awaited -= frame.store
    val isDone = known.opened.nonEmpty && known.hasKeptAll && channels.isRead(attempt)
    val conflict = if (isDone) channels.settle(attempt, known.kept) else None
    conflict.fold[Ack](Ack.Accepted) { why =>
      attempts(attempt) = known.copy(discarded = Some(why))
      Ack.Discarded(why)
    }
  }

  private def note(frame: PlacedFrame): Ack = {
    val name = frame.name
    val attempt = of(frame.attempt)
    // A snapshot that is written with the commit includes its delta and saves reading it.
    attempt.frames.get(name.store) match {
      case Some(known) if known.name == name => Ack.Duplicate
      case Some(known) if known.name.kind == name.kind || known.name.version != name.version =>
        Ack.Discarded(s"the attempt has reported ${known.name} already")
      case known =>
        val counts = known.isEmpty || name.kind == FrameKind.Base
        val frames = if (counts) attempt.frames.updated(name.store, frame) else attempt.frames
        turn += 1
        attempts(frame.attempt) = attempt.copy(frames = frames, turn = turn)
        Ack.Accepted
    }
  }

  /** The stores that this epoch must have, in order. */
  def expected: Vector[StoreId] = closing.expected

  def progress: EpochProgress = EpochProgress(
    epoch,
    attempts.values.count(_.opened.nonEmpty),
    attempts.values.count(attempt => attempt.opened.nonEmpty && attempt.hasKeptAll),
    attempts.values.count(attempt => attempt.hasFailed || attempt.discarded.nonEmpty),
    expected.size,
    attempts.values.flatMap(_.kept.keys).toSet.size
  )

  /** The current input of the close of the epoch. */
  def closing: ClosingEpoch =
    new ClosingEpoch(previous, before, further, attempts.values.toArray, channels.reading)

  /** The state of every store after this epoch, or the stores without one; see [[ClosingEpoch]]. */
  def close(counted: Option[Set[String]]): Either[Set[StoreId], Seq[StoreCut]] =
    closing.close(counted)

  /** The stores of each attempt. */
  def tasks: Iterable[Set[StoreId]] =
    attempts.values
      .flatMap(attempt => Seq(attempt.opened, attempt.frames.keySet))
      .filter(_.nonEmpty)

  /** The names of the segments with frames of this run. */
  def segments: Set[String] =
    attempts.valuesIterator.flatMap(_.frames.valuesIterator).map(_.place.segment).toSet

  /** The location of a durable frame. */
  def placed(attempt: Long, store: StoreId): Option[PlacedFrame] =
    attempts.get(attempt).flatMap(_.frames.get(store))
}

/**
 * The progress of an epoch.
 *
 * @param attempts
 *   task attempts that have opened a store
 * @param complete
 *   attempts that have reported every store that they opened
 * @param stores
 *   known required stores
 * @param reported
 *   required stores with a frame
 */
final case class EpochProgress(
    epoch: Long,
    attempts: Int,
    complete: Int,
    failed: Int,
    stores: Int,
    reported: Int
)
