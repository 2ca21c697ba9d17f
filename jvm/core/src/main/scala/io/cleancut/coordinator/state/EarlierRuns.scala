package io.cleancut.coordinator.state

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, PlacedFrame, SegmentIdentity, StoreCut}
import io.cleancut.format.cut.{Cut, SealedFrame}
import io.cleancut.protocol.EpochLedger

/**
 * Frames of an epoch that earlier runs made durable before they ended. A sink that has seen the
 * epoch may skip it when it runs again; then the frames of an earlier run are required. Pure, as
 * [[EpochLedger]] is.
 *
 * The stores that an attempt had opened are not recorded. But all attempts at a task open the same
 * stores, so an attempt that wrote fewer than others did not finish; nor did one that wrote fewer
 * than all stores of an operator that any attempt wrote in its partition.
 *
 * Frames of an offline operation do not count. An operation that is refused or killed leaves them
 * under an epoch that the query reaches later.
 *
 * @param previous
 *   cut before this epoch
 * @param segments
 *   segments of the epoch, without those of the current run
 * @param current
 *   current run, whose frames do not count
 * @param ownTasks
 *   stores of each task that the current run has executed
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
    .map(frames => frames.head._1 -> ofTasks(frames.flatMap(_._2)))
    .toSeq

  private val tasks: collection.Map[StoreId, Set[StoreId]] = {
    val taskOf = mutable.Map.empty[StoreId, Set[StoreId]]
    val attempts = runs.flatMap(_._2.groupMap(_.attempt)(_.name.store).values.map(_.toSet))
    // One task opens all stores of an operator and partition, although each attempt may have
    // failed between two of them.
    val ofOperators = attempts.flatten.groupBy(_.operatorPartition).values.map(_.toSet)
    for (opened <- attempts ++ ownTasks ++ ofOperators) {
      // Only attempts that leave rows in shuffle inputs write frames of these.
      val stores = opened.filterNot(Channels.isChannel).toSet
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
   * The state of every store after the epoch, from the latest complete run; or the stores that are
   * missing in the latest run.
   */
  def close(): Either[Set[StoreId], Seq[StoreCut]] = {
    val earlier = runs.filter(_._1.runId != current).sortBy(-_._1.generation)
    val results = earlier.map { case (_, frames) => closed(frames) }
    results.find(_.isRight).orElse(results.headOption).getOrElse(closed(Nil))
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
