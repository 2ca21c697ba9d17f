package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.base.{OperatorPartition, StoreId}
import io.cleancut.format._
import io.cleancut.format.cut.Cut

/**
 * The contents of an [[EpochLedger]] at one moment, and the chains that follow from it. Immutable,
 * so that the coordinator computes them without its lock, because the computation takes time
 * proportional to the number of stores.
 *
 * @param previous
 *   cut before the epoch
 * @param before
 *   stores of `previous`, in order
 * @param further
 *   further stores that the epoch must have
 * @param reading
 *   attempts that have not reported all of their shuffle inputs
 */
final private[protocol] class ClosingEpoch(
    previous: Option[Cut],
    before: Vector[StoreId],
    further: Set[StoreId],
    attempts: Array[TaskAttempt],
    reading: Set[Long]
) {

  /** The stores that the epoch must have, in order. */
  def expected: Vector[StoreId] = {
    // Usually these are exactly the stores of the previous cut.
    val more = mutable.Set.empty[StoreId]
    def add(store: StoreId): Unit =
      // A shuffle input without remaining rows has no frame.
      if (!previous.exists(_.of(store).isDefined) && !Channels.isChannel(store)) more += store
    further.foreach(add)
    attempts.foreach { attempt =>
      attempt.opened.foreach(add)
      attempt.frames.keysIterator.foreach(add)
    }
    if (more.isEmpty) before else (before ++ more).sorted(StoreOrder)
  }

  /**
   * The state of every store after this epoch, or the stores without one.
   *
   * @param counted
   *   IDs of the versions that Spark counted, if its commit entry names them
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

  private def latestComplete: collection.Map[StoreId, PlacedFrame] = {
    val complete = attempts
      .filter(attempt => attempt.discarded.isEmpty && isComplete(attempt))
      .sortBy(attempt => (!attempt.hasFailed, attempt.turn))
    // The shuffle inputs in `chosen`.
    val inFlight = mutable.HashMap.empty[OperatorPartition, Set[StoreId]]
    complete.foldLeft(mutable.HashMap.empty[StoreId, PlacedFrame]) { (chosen, attempt) =>
      // The in-flight rows of a partition are those of the attempt whose state counts, or none.
      attempt.frames.keysIterator
        .map(_.operatorPartition)
        .flatMap(inFlight.remove(_))
        .foreach(chosen --= _)
      attempt.frames.keysIterator.filter(Channels.isChannel).foreach { channel =>
        val partition = channel.operatorPartition
        inFlight(partition) = inFlight.getOrElse(partition, Set.empty) + channel
      }
      chosen ++= attempt.frames
    }
  }

  /** If a base is due, its delta comes before it. */
  private def isComplete(attempt: TaskAttempt): Boolean = {
    val frames = attempt.frames
    frames.nonEmpty && attempt.opened.forall(frames.contains) && !reading(attempt.id) &&
    frames.forall { case (store, frame) =>
      isWhole(frame) || previous.exists(_.of(store).isDefined)
    }
  }

  /** Spark does not name shuffle inputs: those of the attempts that it counted are included. */
  private def byIds(ids: Set[String]): collection.Map[StoreId, PlacedFrame] =
    attempts.iterator.flatMap { attempt =>
      val frames = attempt.frames
      val counted = frames.filter { case (_, frame) => ids(frame.name.version.id) }
      val partitions = counted.keysIterator.map(_.operatorPartition).toSet
      counted ++ frames.filter { case (store, _) =>
        Channels.isChannel(store) && partitions(store.operatorPartition)
      }
    }.toMap

  /** None if the delta applies to a version that the previous cut does not have. */
  private def chain(store: StoreId, frame: PlacedFrame): Option[StoreCut] = {
    val last = (frame.name.kind, frame.name.version, frame.place)
    if (isWhole(frame)) Some(StoreCut(store, PackedChain.of(Vector(last))))
    else
      previous.flatMap(_.of(store)).map { before =>
        StoreCut(store, PackedChain.of(before.frames).and(last))
      }
  }

  /** Whether it requires no earlier frame. */
  private def isWhole(frame: PlacedFrame): Boolean =
    frame.name.kind == FrameKind.Base || frame.name.version.number == 1L
}

/**
 * A task attempt of an epoch.
 *
 * @param opened
 *   stores that it has opened
 * @param kept
 *   frames that outlive its executor, and may not be durable yet
 * @param frames
 *   durable frames that it has written
 * @param turn
 *   rank among the attempts by their last frames: later attempts count before earlier ones
 * @param discarded
 *   reason why it does not count, if its decision differs from the decision of the attempt that
 *   counts
 */
final private[protocol] case class TaskAttempt(
    id: Long,
    opened: Set[StoreId] = Set.empty,
    kept: Map[StoreId, FrameName] = Map.empty,
    frames: Map[StoreId, PlacedFrame] = Map.empty,
    turn: Long = 0L,
    hasFailed: Boolean = false,
    discarded: Option[String] = None
) {

  /** Whether there is a frame of each store that it has opened. */
  def hasKeptAll: Boolean = opened.forall(kept.contains)
}
