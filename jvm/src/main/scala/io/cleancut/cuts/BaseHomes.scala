package io.cleancut.cuts

import scala.collection.mutable
import scala.util.hashing.MurmurHash3

import io.cleancut.StoreId

/**
 * On which executors the bases of one query's stores had better lie: where its tasks have opened
 * the stores, and, if standby copies are kept, on as many others. Only a hint, for the scheduler
 * and for those executors; nothing is wrong where it is. Pure, as [[EpochLedger]] is.
 *
 * Executors take stores in the order of a hash of both (rendezvous hashing, Thaler and Ravishankar
 * 1998), so that one which comes or goes moves no more than its own share, and the first standby of
 * a store is where it goes if its home is lost.
 */
final class BaseHomes {
  import BaseHomes._

  private val followers = mutable.LinkedHashMap.empty[String, Place]
  private val homes = mutable.Map.empty[StoreId, Place]
  // Stores that a task is expected to open at their homes, where it has not loaded them.
  private val expected = mutable.Set.empty[StoreId]
  private val orders = mutable.Map.empty[Task, Seq[Place]]

  /** A task has opened a store. */
  def opened(store: StoreId, at: Place): Unit = {
    homes(store) = at
    expected -= store
    ()
  }

  /** An executor asks what to fetch, and so can keep something. */
  def follows(at: Place): Unit = if (!followers.get(at.executor).contains(at)) {
    followers(at.executor) = at
    orders.clear()
  }

  /**
   * An executor is gone.
   *
   * @return
   *   the new homes of the stores that it had
   */
  def left(executor: String): Map[StoreId, Place] = {
    followers -= executor
    orders.clear()
    settle(homes.collect { case (store, at) if at.executor == executor => store }.toSeq)
  }

  /** A run begins: the homes of its stores, if the run before it was in the same processes. */
  def begins(): Map[StoreId, Place] = settle(homes.keys.toSeq)

  /** Whether an executor is to have the base of a store. */
  def isWanted(store: StoreId, executor: String, replicas: Int): Boolean = {
    val home = homes.get(store)
    if (home.exists(_.executor == executor)) expected(store)
    else replicas > 0 && standbys(store, home, replicas).exists(_.executor == executor)
  }

  /** Whether [[isWanted]] may be true of any store. */
  def mayWant(replicas: Int): Boolean = replicas > 0 || expected.nonEmpty

  private def settle(stores: Seq[StoreId]): Map[StoreId, Place] = {
    val found = stores.flatMap { store =>
      val stays = homes.get(store).filter(at => followers.get(at.executor).contains(at))
      val home = stays.orElse(standbys(store, homes.get(store), 1).headOption)
      if (home.isEmpty) homes -= store
      home.map(store -> _)
    }.toMap
    homes ++= found
    expected ++= found.keys
    found
  }

  /** On another host than the home's, where there is one. */
  private def standbys(store: StoreId, home: Option[Place], replicas: Int): Seq[Place] = {
    val others = orderOf(store).filterNot(at => home.exists(_.executor == at.executor))
    val (near, far) = others.partition(at => home.exists(_.host == at.host))
    (far ++ near).take(replicas)
  }

  /** The stores of one task stay together. */
  private def orderOf(store: StoreId): Seq[Place] = {
    val task = (store.operator, store.partition)
    def hash(at: Place) =
      MurmurHash3.stringHash(s"${store.operator} ${store.partition} ${at.executor}")
    orders.getOrElseUpdate(task, followers.values.toVector.sortBy(hash))
  }
}

private object BaseHomes {
  private type Task = (Long, Int)
}
