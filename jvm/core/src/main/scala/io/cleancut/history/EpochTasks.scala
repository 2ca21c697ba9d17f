package io.cleancut.history

import scala.collection.mutable

import io.cleancut.base.StoreId

/**
 * What a run has measured of the tasks of one epoch. It belongs to whoever asks first for what it
 * comes to.
 *
 * @param tookNs
 *   by task attempt and store, from when it was opened until its frame was accepted
 * @param rows
 *   that each attempt has read
 * @param opened
 *   what each attempt has opened, whether or not it has come to its end
 */
final class EpochTasks(
    tookNs: collection.Map[(Long, StoreId), Long],
    rows: collection.Map[Long, Long],
    opened: collection.Set[(Long, StoreId)]
) {
  import EpochTasks._

  private type Task = (Long, Int)

  /** Of each task the longest that a store of it took, in an attempt that has reported it. */
  lazy val ms: collection.Map[Task, Long] =
    longest(tookNs.iterator.map { case ((_, store), ns) => taskOf(store) -> ns / NsPerMs })

  /** How many rows each task has read: that attempt which has read most. */
  lazy val rowsOf: collection.Map[Task, Long] = longest(for {
    ((attempt, store), _) <- tookNs.iterator
    count <- rows.get(attempt)
  } yield taskOf(store) -> count)

  /** Attempts beyond one for each task. */
  def repeated: Int =
    opened.groupMap { case (_, store) => taskOf(store) }(_._1).values.map(_.size - 1).sum

  private def longest(of: Iterator[(Task, Long)]): collection.Map[Task, Long] = {
    val most = mutable.HashMap.empty[Task, Long]
    of.foreach { case (task, value) =>
      most(task) = Math.max(value, most.getOrElse(task, 0L))
    }
    most
  }
}

object EpochTasks {
  val None: EpochTasks = new EpochTasks(Map.empty, Map.empty, Set.empty)

  private val NsPerMs = 1000000L

  private def taskOf(store: StoreId) = (store.operator, store.partition)
}
