package io.cleancut.cuts

import scala.collection.mutable

import io.cleancut.{OperatorPartition, StoreId}
import io.cleancut.channels.{Channels, EpochChannels}
import io.cleancut.format._

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
  private val opened = mutable.LinkedHashMap.empty[Long, mutable.Set[StoreId]]
  private val frames = mutable.LinkedHashMap.empty[Long, mutable.Map[StoreId, PlacedFrame]]
  // What outlives its executor, though it may not be durable yet.
  private val kept = mutable.Map.empty[Long, mutable.Map[StoreId, FrameName]]
  // Of the stores that the epoch must have in any case, those of which nothing has come yet.
  // Made with the first frame of the epoch, and not at the gate of the one before.
  private lazy val awaited = mutable.Set.from(before ++ further)
  private lazy val before: Vector[StoreId] = previous.fold(Vector.empty[StoreId]) { cut =>
    cut.stores.iterator.map(_.store).filterNot(Channels.isChannel).toVector.sorted(StoreOrder)
  }
  private val failed = mutable.Set.empty[Long]
  // With the reason.
  private val discarded = mutable.Map.empty[Long, String]
  // Later attempts count before earlier ones; an attempt's turn is that of its last frame.
  private var turn = 0L
  private val turns = mutable.Map.empty[Long, Long]

  def open(attempt: Long, store: StoreId): Unit = {
    opened.getOrElseUpdate(attempt, mutable.Set.empty) += store
    ()
  }

  /**
   * The attempt failed, or was killed. It counts only where no other one is complete: where its
   * rows were kept before it failed, as those of a batch that is persisted, the next attempt reads
   * these rows and opens no store.
   */
  def fail(attempt: Long): Unit = {
    failed += attempt
    ()
  }

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
    case Ack.Duplicate => discarded.get(frame.attempt).fold[Ack](Ack.Duplicate)(Ack.Discarded)
    case refused       => refused
  }

  /** An attempt that has its last frame decides on its channels, or has to follow a decision. */
  private def keep(attempt: Long, frame: FrameName): Ack = {
    val own = kept.getOrElseUpdate(attempt, mutable.Map.empty)
    own(frame.store) = frame
    awaited -= frame.store
    val isDone = opened.get(attempt).exists(_.forall(own.contains)) && channels.isRead(attempt)
    val conflict = if (isDone) channels.settle(attempt, own) else None
    conflict.fold[Ack](Ack.Accepted) { why =>
      discarded(attempt) = why
      Ack.Discarded(why)
    }
  }

  private def note(frame: PlacedFrame): Ack = {
    val name = frame.name
    val ofAttempt = frames.getOrElseUpdate(frame.attempt, mutable.Map.empty)
    // A snapshot that goes with the commit says all that its delta does, and saves reading it.
    ofAttempt.get(name.store) match {
      case Some(known) if known.name == name => Ack.Duplicate
      case Some(known) if known.name.kind == name.kind || known.name.version != name.version =>
        Ack.Discarded(s"the attempt has reported ${known.name} already")
      case known =>
        if (known.isEmpty || name.kind == FrameKind.Base) ofAttempt(name.store) = frame
        turn += 1
        turns(frame.attempt) = turn
        Ack.Accepted
    }
  }

  /** The stores that this epoch must have, in order. */
  def expected: Vector[StoreId] = {
    // Most often there are those of the cut before, and no others.
    val more = mutable.Set.empty[StoreId]
    def add(store: StoreId): Unit =
      // A channel that has handed on all its rows is not there any more.
      if (!previous.exists(_.of(store).isDefined) && !Channels.isChannel(store)) more += store
    further.foreach(add)
    opened.valuesIterator.foreach(_.foreach(add))
    frames.valuesIterator.foreach(_.keysIterator.foreach(add))
    if (more.isEmpty) before else (before ++ more).sorted(StoreOrder)
  }

  def progress: EpochProgress = EpochProgress(
    epoch,
    opened.size,
    opened.count { case (attempt, stores) =>
      kept.get(attempt).exists(reported => stores.forall(reported.contains))
    },
    (failed ++ discarded.keys).size,
    expected.size,
    kept.values.flatMap(_.keys).toSet.size
  )

  /**
   * The state of every store after this epoch, or the stores that lack it.
   *
   * @param counted
   *   the ids of the versions that Spark counted, where its commit entry names them
   */
  def close(counted: Option[Set[String]]): Either[Set[StoreId], Seq[StoreCut]] = {
    val chosen = counted.fold(latestComplete)(byIds)
    val due = expected
    val chains = due.flatMap(store => chosen.get(store).flatMap(chain(store, _)))
    if (chains.sizeIs < due.size) Left(due.toSet -- chains.iterator.map(_.store))
    else {
      val inFlight =
        chosen.keysIterator.filter(Channels.isChannel).flatMap(s => chain(s, chosen(s))).toSeq
      Right(if (inFlight.isEmpty) chains else (chains ++ inFlight).sortBy(_.store)(StoreOrder))
    }
  }

  /** The stores of each attempt. */
  def tasks: Iterable[collection.Set[StoreId]] = opened.values ++ frames.values.map(_.keySet)

  /** The names of those that hold frames of this run. */
  def segments: Set[String] =
    frames.valuesIterator.flatMap(_.valuesIterator).map(_.place.segment).toSet

  /** Where a frame that is durable lies. */
  def placed(attempt: Long, store: StoreId): Option[PlacedFrame] =
    frames.get(attempt).flatMap(_.get(store))

  private def latestComplete: collection.Map[StoreId, PlacedFrame] = {
    val attempts = frames.keys.toSeq
      .filter(attempt => !discarded.contains(attempt) && isComplete(attempt))
      .sortBy(attempt => (!failed(attempt), turns(attempt)))
    // The channels in `chosen`.
    val inFlight = mutable.HashMap.empty[OperatorPartition, Set[StoreId]]
    attempts.foldLeft(mutable.HashMap.empty[StoreId, PlacedFrame]) { (chosen, attempt) =>
      val own = frames(attempt)
      // The in-flight rows of a partition are those of the attempt whose state counts, or none.
      own.keysIterator.map(_.operatorPartition).flatMap(inFlight.remove(_)).foreach(chosen --= _)
      own.keysIterator.filter(Channels.isChannel).foreach { channel =>
        val partition = channel.operatorPartition
        inFlight(partition) = inFlight.getOrElse(partition, Set.empty) + channel
      }
      chosen ++= own
    }
  }

  /** Where a base is due, its delta comes before it. */
  private def isComplete(attempt: Long): Boolean = {
    val own = frames(attempt)
    opened.get(attempt).forall(_.forall(own.contains)) && channels.isRead(attempt) &&
    own.forall { case (store, frame) => isWhole(frame) || previous.exists(_.of(store).isDefined) }
  }

  /** Spark names no channels: those of the attempts that it counted go with them. */
  private def byIds(ids: Set[String]): collection.Map[StoreId, PlacedFrame] =
    frames.values.flatMap { own =>
      val counted = own.filter { case (_, frame) => ids(frame.name.version.id) }
      val partitions = counted.keysIterator.map(_.operatorPartition).toSet
      counted ++ own.filter { case (store, _) =>
        Channels.isChannel(store) && partitions(store.operatorPartition)
      }
    }.toMap

  /** None if the delta applies to a version that the cut before does not have. */
  private def chain(store: StoreId, frame: PlacedFrame): Option[StoreCut] = {
    val last = (frame.name.kind, frame.name.version, frame.place)
    if (isWhole(frame)) Some(StoreCut(store, PackedChain.of(Vector(last))))
    else
      previous.flatMap(_.of(store)).map { before =>
        StoreCut(store, PackedChain.of(before.frames).and(last))
      }
  }

  /** Whether it needs no frame before it. */
  private def isWhole(frame: PlacedFrame): Boolean =
    frame.name.kind == FrameKind.Base || frame.name.version.number == 1L
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
