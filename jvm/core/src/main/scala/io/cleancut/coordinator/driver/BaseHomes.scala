package io.cleancut.coordinator.driver

import scala.collection.mutable
import scala.util.hashing.MurmurHash3

import io.cleancut.base.StoreId
import io.cleancut.cutstore.usage.Place

/**
 * The executors that should have the snapshots of one query's stores: the executors at which tasks
 * have opened the stores, and, if standby replicas are configured, as many others. Only a hint for
 * the scheduler and for the executors; no result depends on it. Pure, as [[EpochLedger]] is.
 */
final class BaseHomes {
  private var current = Placements(Map.empty, Map.empty)
  // By executor: the stores that a task is expected to open there, and that the executor has not
  // loaded.
  private val expected = mutable.Map.empty[String, Set[StoreId]]

  /** A new object after each change of the executors or the homes. */
  def placements: Placements = current

  /** A task has opened a store. */
  def opened(store: StoreId, at: Place): Unit = {
    val home = current.homes.get(store)
    home.foreach(place => expected.updateWith(place.executor)(_.map(_ - store)))
    if (!home.contains(at)) current = current.copy(homes = current.homes.updated(store, at))
  }

  /** An executor polls, so it can keep a copy. */
  def follows(at: Place): Unit =
    if (!current.followers.get(at.executor).contains(at))
      current = current.copy(followers = current.followers.updated(at.executor, at))

  /**
   * An executor is lost.
   *
   * @return
   *   the new homes of the stores that it had
   */
  def left(executor: String): Map[StoreId, Place] = {
    expected -= executor
    current = current.copy(followers = current.followers - executor)
    settle(current.homes.collect { case (store, at) if at.executor == executor => store })
  }

  /** A run begins. Returns the homes of its stores, if the previous run used the same processes. */
  def startRun(): Map[StoreId, Place] = settle(current.homes.keys)

  /** The stores that a task is expected to open at an executor. */
  def expectedAt(executor: String): Set[StoreId] = expected.getOrElse(executor, Set.empty)

  private def settle(stores: Iterable[StoreId]): Map[StoreId, Place] = {
    val homes = stores.flatMap(store => current.nextHome(store).map(store -> _)).toMap
    current = current.copy(homes = current.homes -- stores ++ homes)
    for ((executor, stores) <- homes.groupMap(_._2.executor)(_._1))
      expected(executor) = expectedAt(executor) ++ stores
    homes
  }
}

/**
 * Executors and homes at one moment.
 *
 * Executors take stores in the order of a hash of both (rendezvous hashing, Thaler and Ravishankar
 * 1998). So an executor that joins or leaves moves no more than its own share, and the first
 * standby of a store is its next home if its home is lost.
 *
 * @param followers
 *   the executors that keep copies, by id
 */
final case class Placements(followers: Map[String, Place], homes: Map[StoreId, Place]) {
  import Placements._

  private lazy val hashes = followers.values.toVector.map(at => at -> at.executor.hashCode)

  /** By executor: the stores to copy to it. Too slow for a poll, see [[Standbys]]. */
  def standbys(replicas: Int): Map[String, Set[StoreId]] =
    if (replicas == 0) Map.empty
    else {
      // Most stores of one task have the same home, and so the same order of executors.
      val tasks = homes.groupMap { case (store, home) => (taskOf(store), home) }(_._1)
      val copies = for {
        ((task, home), stores) <- tasks.toVector
        at <- others(task, Some(home)).take(replicas)
      } yield at.executor -> stores
      copies.groupMapReduce(_._1)(_._2.toSet)(_ ++ _)
    }

  /** The home of a store in a new run: the old one, or the first standby. */
  def nextHome(store: StoreId): Option[Place] = {
    val home = homes.get(store)
    home
      .filter(at => followers.get(at.executor).contains(at))
      .orElse(others(taskOf(store), home).headOption)
  }

  /** Executors on hosts other than the home's come first. */
  private def others(task: Task, home: Option[Place]): Seq[Place] = {
    val seed = MurmurHash3.stringHash(s"${task._1} ${task._2}")
    hashes
      .filterNot { case (at, _) => home.exists(_.executor == at.executor) }
      .map { case (at, hash) => at -> MurmurHash3.finalizeHash(MurmurHash3.mix(seed, hash), 2) }
      .sortBy { case (at, rank) => (home.exists(_.host == at.host), rank) }
      .map(_._1)
  }
}

private[coordinator] object Placements {
  private type Task = (Long, Int)

  private def taskOf(store: StoreId): Task = (store.operator, store.partition)
}
