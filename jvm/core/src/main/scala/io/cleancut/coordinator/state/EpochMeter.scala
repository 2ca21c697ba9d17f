package io.cleancut.coordinator.state

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.cutstore.usage.{Place, Sender, UsageBook}
import io.cleancut.format.cut.{EpochCosts, SealedFrame, StoreTime}
import io.cleancut.history.EpochTasks

/**
 * How long the epochs of one run take, and what they use. Pure, as [[EpochLedger]] is: all times
 * come from the caller, in nanoseconds of one monotonic clock.
 *
 * What is used counts for the epoch in which it happened to be used: from the moment at which the
 * cut before it was put together to that of its own. So the write of a cut counts for the next, and
 * over several epochs nothing is left out or counted twice.
 *
 * @param begun
 *   what had been used when the run began
 */
final class EpochMeter(begun: UsageBook.Shares) {
  import EpochMeter._

  private var before = begun
  private var cutNs = Option.empty[Long]
  private var firstOpenNs = Option.empty[Long]
  private val openers = mutable.Map.empty[StoreId, (Long, Option[Place])]
  // Handed on with each epoch, and not copied: there may be tens of thousands.
  private var openedNs = mutable.Map.empty[(Long, StoreId), Long]
  private var tookNs = mutable.Map.empty[(Long, StoreId), Long]
  private var rows = mutable.Map.empty[Long, Long]
  private val places = mutable.Map.empty[Long, Place]

  /** An attempt has opened a store, whether or not it is to report anything. */
  def openedBy(attempt: Long, store: StoreId, at: Option[Place]): Unit =
    if (lastOpener(store).forall(_._1 <= attempt)) openers(store) = attempt -> at

  def opened(attempt: Long, store: StoreId, nowNs: Long): Unit = {
    firstOpenNs = firstOpenNs.orElse(Some(nowNs))
    openedNs.getOrElseUpdate((attempt, store), nowNs)
    ()
  }

  /** An attempt's executor, which reports before the frame is taken for durable. */
  def heard(attempt: Long, from: Sender): Unit =
    if (attempt != SealedFrame.Maintenance) places(attempt) = from.place

  /** An attempt has read so many rows. */
  def read(attempt: Long, count: Long): Unit = {
    rows(attempt) = count
    ()
  }

  /** The last attempt that has opened a store in this epoch, and where, as far as it said. */
  def lastOpener(store: StoreId): Option[(Long, Option[Place])] = openers.get(store)

  /** A frame was accepted. */
  def accepted(attempt: Long, store: StoreId, nowNs: Long): Unit = {
    val key = (attempt, store)
    openedNs.get(key).foreach(start => tookNs(key) = nowNs - start)
  }

  /** What took longest: a store may be there once for each attempt at it. */
  def slowest: Seq[StoreTime] = {
    // Tens of thousands of stores cost one pass, since the query waits at the gate meanwhile.
    val kept = mutable.PriorityQueue.empty[((Long, StoreId), Long)](Ordering.by(-_._2))
    tookNs.foreach { took =>
      if (kept.size < Slowest) kept.enqueue(took)
      else if (took._2 > kept.head._2) {
        kept.dequeue()
        kept.enqueue(took)
      }
    }
    kept.toSeq.sortBy(-_._2).map { case ((attempt, store), ns) =>
      val place = places.getOrElse(attempt, Unknown)
      StoreTime(store, place.executor, place.host, NANOSECONDS.toMillis(ns))
    }
  }

  /** What the epoch has taken so far. */
  def costs(now: UsageBook.Shares): EpochCosts = EpochCosts(
    (now.driver - before.driver).toShare,
    (now.executors - before.executors).toShare,
    now.executorCount,
    slowest
  )

  /**
   * Milliseconds by phase, for the cut that is about to be written.
   *
   * @param gateNs
   *   when the query came to the gate
   * @param parts
   *   what it did there since, one behind the other, each with the time of its end
   */
  def timings(gateNs: Long, parts: Seq[(String, Long)]): Map[String, Long] = {
    val ends = parts.map(_._2)
    val phases = parts.map(_._1).zip((gateNs +: ends).zip(ends).map { case (a, b) => b - a })
    val endNs = ends.last
    // At the gate, the coordinator runs tasks that a skipped epoch lacks: they open stores later.
    val startNs = firstOpenNs.map(Math.min(_, gateNs))
    (phases.toMap + ("gateMs" -> (endNs - gateNs)) ++
      startNs.map(start => "epochMs" -> (endNs - start)) ++
      cutNs.map("previousCutMs" -> _)).map { case (phase, ns) => phase -> NANOSECONDS.toMillis(ns) }
  }

  /**
   * The epoch is committed.
   *
   * @param used
   *   what [[costs]] was told
   * @param writeNs
   *   what the write of the cut took
   * @return
   *   what its tasks took
   */
  def advance(used: UsageBook.Shares, writeNs: Long): EpochTasks = {
    val tasks = new EpochTasks(tookNs, rows, openedNs.keySet)
    before = used
    cutNs = Some(writeNs)
    firstOpenNs = None
    openers.clear()
    openedNs = mutable.Map.empty
    tookNs = mutable.Map.empty
    rows = mutable.Map.empty
    places.clear()
    tasks
  }
}

object EpochMeter {

  /** How many of the slowest stores a cut names. */
  val Slowest: Int = 5

  private val Unknown = Place("", "")
}
