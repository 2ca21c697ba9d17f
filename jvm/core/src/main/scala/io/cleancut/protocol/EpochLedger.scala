package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, FrameName, PlacedFrame, StoreCut, StoreOrder}
import io.cleancut.format.cut.Cut

/** What became of a frame that was reported. */
sealed trait Ack extends Serializable

object Ack {

  /** It counts, unless Spark chooses another attempt. */
  case object Accepted extends Ack

  /** It was reported before, with the same place. */
  case object Duplicate extends Ack

  /** No such epoch is open: the task belongs to another run, or is too late. */
  final case class Unknown(why: Refusal) extends Ack

  /** The epoch has gone on without it. */
  final case class Discarded(why: String) extends Ack
}

/**
 * What is known of one epoch that is not committed yet: which task attempts opened which stores,
 * and which frames they made durable. Pure: it knows no clock, no network and no store.
 *
 * The unit of acceptance is a task attempt: all stores that it opened, or none, so that the sides
 * of a join never come from two attempts.
 *
 * @param previous
 *   the cut before this epoch
 * @param further
 *   stores that it must have beside those of `previous` and those that tasks open
 */
final class EpochLedger(
    val epoch: Long,
    previous: Option[Cut],
    further: Set[StoreId] = Set.empty,
    val channels: EpochChannels = new EpochChannels
) {
  private val attempts = mutable.LinkedHashMap.empty[Long, TaskAttempt]
  // Of the stores that the epoch must have in any case, those of which nothing has come yet.
  // Made with the first frame of the epoch, and not at the gate of the one before.
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
   * The attempt failed, or was killed. It counts only where no other one is complete: where its
   * rows were kept before it failed, as those of a batch that is persisted, the next attempt reads
   * these rows and opens no store.
   */
  def fail(attempt: Long): Unit = attempts(attempt) = of(attempt).copy(hasFailed = true)

  /** The driver holds a frame, which will be made durable and acknowledged before the cut. */
  def hold(attempt: Long, frame: FrameName): Ack = keep(attempt, frame)

  /**
   * Whether the epoch has nothing yet of some store that it must have, so that it is incomplete
   * whatever becomes of the frames that it has. Before the first cut nobody knows.
   *
   * @param present
   *   a store of which a frame is there
   */
  def isLackingBeside(present: StoreId): Boolean =
    awaited.size > (if (awaited(present)) 1 else 0)

  /** Whether it may be complete, once all that has been reported is durable. */
  def isHeardOf: Boolean = awaited.isEmpty

  /** A frame is durable. */
  def ack(frame: PlacedFrame): Ack = note(frame) match {
    case Ack.Accepted => keep(frame.attempt, frame.name)
    // Who reports again may not have heard the answer.
    case Ack.Duplicate => of(frame.attempt).discarded.fold[Ack](Ack.Duplicate)(Ack.Discarded)
    case refused       => refused
  }

  /** An attempt that has its last frame decides on its channels, or has to follow a decision. */
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
    // A snapshot that goes with the commit says all that its delta does, and saves reading it.
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

  /** What the close of the epoch depends on, as it is now. */
  def closing: ClosingEpoch =
    new ClosingEpoch(previous, before, further, attempts.values.toArray, channels.reading)

  /**
   * The state of every store after this epoch, or the stores that lack it; see [[ClosingEpoch]].
   */
  def close(counted: Option[Set[String]]): Either[Set[StoreId], Seq[StoreCut]] =
    closing.close(counted)

  /** The stores of each attempt. */
  def tasks: Iterable[Set[StoreId]] =
    attempts.values.flatMap(of => Seq(of.opened, of.frames.keySet)).filter(_.nonEmpty)

  /** The names of those that hold frames of this run. */
  def segments: Set[String] =
    attempts.valuesIterator.flatMap(_.frames.valuesIterator).map(_.place.segment).toSet

  /** Where a frame that is durable lies. */
  def placed(attempt: Long, store: StoreId): Option[PlacedFrame] =
    attempts.get(attempt).flatMap(_.frames.get(store))
}

/**
 * How far an epoch is.
 *
 * @param attempts
 *   of tasks, that have opened a store
 * @param complete
 *   those of them that have reported every store that they opened
 * @param stores
 *   that the epoch must have, as far as is known
 * @param reported
 *   those of them that have a frame
 */
final case class EpochProgress(
    epoch: Long,
    attempts: Int,
    complete: Int,
    failed: Int,
    stores: Int,
    reported: Int
)
