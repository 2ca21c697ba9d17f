package io.cleancut.coordinator.state

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, PlacedFrame, SegmentIdentity, StoreCut}
import io.cleancut.format.cut.{Cut, SealedFrame}
import io.cleancut.protocol.EpochLedger

/**
 * What runs of an epoch made durable before they were cut off. A sink that has seen the epoch may
 * skip it when it runs again; then one of them is all there is. Pure, as [[EpochLedger]] is.
 *
 * Which stores an attempt had opened is not on record. But all attempts at a task open the same, so
 * one that wrote fewer than others did not finish.
 *
 * Frames of an offline operation do not count. An operation that is refused or killed leaves them
 * under an epoch that the query reaches later.
 *
 * @param previous
 *   the cut before this epoch
 * @param segments
 *   of the epoch, those of the run that asks aside
 * @param current
 *   the run that asks, whose frames do not count
 * @param ownTasks
 *   the stores of each task that it has run
 */
final class EarlierRuns(
    epoch: Long,
    previous: Option[Cut],
    segments: Seq[(SegmentIdentity, Seq[PlacedFrame])],
    current: String,
    ownTasks: Iterable[collection.Set[StoreId]] = Nil
) {
  private val runs: Seq[(SegmentIdentity, Seq[PlacedFrame])] = segments
    .groupMap(_._1.runId)(identity)
    .values
    .map(of => of.head._1 -> ofTasks(of.flatMap(_._2)))
    .toSeq

  private val tasks: collection.Map[StoreId, Set[StoreId]] = {
    val taskOf = mutable.Map.empty[StoreId, Set[StoreId]]
    val attempts = runs.flatMap(_._2.groupMap(_.attempt)(_.name.store).values.map(_.toSet))
    for (of <- attempts ++ ownTasks) {
      // Channels are written by those attempts alone that leave rows in them.
      val stores = of.filterNot(Channels.isChannel).toSet
      val task = stores ++ stores.flatMap(taskOf.getOrElse(_, Set.empty))
      task.foreach(taskOf(_) = task)
    }
    taskOf
  }

  /** Frames of attempts at tasks of a query: each of them writes a delta, an operation none. */
  private def ofTasks(frames: Seq[PlacedFrame]): Seq[PlacedFrame] = {
    val deltas = frames.filter(_.name.kind == FrameKind.Delta)
    val attempts = deltas.map(_.attempt).toSet - SealedFrame.Maintenance
    frames.filter(frame => attempts(frame.attempt))
  }

  /**
   * The state of every store after the epoch, as the latest run that was complete left it; or the
   * stores that the latest lacks.
   */
  def close(): Either[Set[StoreId], Seq[StoreCut]] = {
    val earlier = runs.filter(_._1.runId != current).sortBy(-_._1.generation)
    val found = earlier.map { case (_, frames) => closed(frames) }
    found.find(_.isRight).orElse(found.headOption).getOrElse(closed(Nil))
  }

  private def closed(frames: Seq[PlacedFrame]): Either[Set[StoreId], Seq[StoreCut]] = {
    val ledger = new EpochLedger(epoch, previous, tasks.keySet.toSet)
    frames.foreach { frame =>
      tasks.getOrElse(frame.name.store, Set.empty).foreach(ledger.open(frame.attempt, _))
      ledger.ack(frame)
    }
    ledger.close(None)
  }
}
