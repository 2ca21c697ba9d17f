package io.cleancut.history

import scala.collection.mutable

import io.cleancut.base.StoreId

/**
 * The measurements of a run on the tasks of one epoch. Evaluated lazily by the first reader.
 *
 * @param tookNs
 *   by task attempt and store, time from the open until its frame was accepted
 * @param rows
 *   rows that each attempt has read
 * @param opened
 *   stores that each attempt has opened, whether or not it has completed
 */
final class EpochTasks(
    tookNs: collection.Map[(Long, StoreId), Long],
    rows: collection.Map[Long, Long],
    opened: collection.Set[(Long, StoreId)]
) {
  import EpochTasks._

  private type Task = (Long, Int)

  /** The longest time of a store of each task, in an attempt that has reported it. */
  lazy val ms: collection.Map[Task, Long] =
    longest(tookNs.iterator.map { case ((_, store), ns) => taskOf(store) -> ns / NsPerMs })

  /** The rows that each task has read, in the attempt with the most rows. */
  lazy val rowsOf: collection.Map[Task, Long] = longest(for {
    ((attempt, store), _) <- tookNs.iterator
    count <- rows.get(attempt)
  } yield taskOf(store) -> count)

  /** Attempts beyond one for each task. */
  def repeated: Int =
    opened.groupMap { case (_, store) => taskOf(store) }(_._1).values.map(_.size - 1).sum

  private def longest(times: Iterator[(Task, Long)]): collection.Map[Task, Long] = {
    val most = mutable.HashMap.empty[Task, Long]
    times.foreach { case (task, value) =>
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
