package io.cleancut.coordinator.state

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.cutstore.usage.{Place, Sender, UsageBook}
import io.cleancut.format.cut.{EpochCosts, SealedFrame, StoreTime}
import io.cleancut.history.{EpochTasks, TriggerTimes}

/**
 * Duration and usage of the epochs of one run. Pure, as [[EpochLedger]] is: the caller passes all
 * times in nanoseconds of one monotonic clock.
 *
 * Usage counts for the epoch in which it happened: from the assembly of the previous cut to the
 * assembly of its own cut. So the write of a cut counts for the next epoch, and over several epochs
 * nothing is omitted or counted twice.
 *
 * @param begun
 *   usage when the run began
 */
final class EpochMeter(begun: UsageBook.Shares) {
  import EpochMeter._

  private var before = begun
  private var cutNs = Option.empty[Long]
  private var firstOpenNs = Option.empty[Long]
  private var lastAcceptedNs = Option.empty[Long]
  private var sealNs = 0L
  private val openers = mutable.Map.empty[StoreId, (Long, Option[Place])]
  // Passed on with each epoch without a copy: there may be tens of thousands.
  private var openedNs = mutable.Map.empty[(Long, StoreId), Long]
  private var tookNs = mutable.Map.empty[(Long, StoreId), Long]
  private var rows = mutable.Map.empty[Long, Long]
  private val places = mutable.Map.empty[Long, Place]

  /** An attempt has opened a store, whether or not it will report a frame. */
  def openedBy(attempt: Long, store: StoreId, at: Option[Place]): Unit =
    if (lastOpener(store).forall(_._1 <= attempt)) openers(store) = attempt -> at

  def opened(attempt: Long, store: StoreId, nowNs: Long): Unit = {
    firstOpenNs = firstOpenNs.orElse(Some(nowNs))
    openedNs.getOrElseUpdate((attempt, store), nowNs)
    ()
  }

  /** The sender of an attempt's report, which precedes the acceptance of its frames. */
  def recordSender(attempt: Long, from: Sender): Unit =
    if (attempt != SealedFrame.Maintenance) places(attempt) = from.place

  /** An attempt has read `count` rows. */
  def read(attempt: Long, count: Long): Unit = {
    rows(attempt) = count
    ()
  }

  /** The last attempt that has opened a store in this epoch, and its location if it is known. */
  def lastOpener(store: StoreId): Option[(Long, Option[Place])] = openers.get(store)

  /** A frame was accepted. */
  def accepted(attempt: Long, store: StoreId, nowNs: Long): Unit = {
    val key = (attempt, store)
    lastAcceptedNs = Some(nowNs)
    openedNs.get(key).foreach(start => tookNs(key) = nowNs - start)
  }

  /** The sink has waited for a seal of the epoch. */
  def recordSeal(durationNs: Long): Unit = sealNs += durationNs

  /** The slowest stores. A store may occur once for each attempt. */
  def slowest: Seq[StoreTime] = {
    // One pass over tens of thousands of stores, because the query waits for the commit meanwhile.
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

  /** Duration and usage of the epoch so far. */
  def costs(now: UsageBook.Shares): EpochCosts = EpochCosts(
    (now.driver - before.driver).toShare,
    (now.executors - before.executors).toShare,
    now.executorCount,
    slowest
  )

  /**
   * Milliseconds by phase, for the cut that is about to be written.
   *
   * @param commitNs
   *   time at which the commit began
   * @param parts
   *   phases of the commit so far, in order, each with the time of its end
   * @param trigger
   *   Spark's measurements at the begin of the commit; without them an epoch begins with its first
   *   open store
   */
  def timings(
      commitNs: Long,
      parts: Seq[(String, Long)],
      trigger: Option[TriggerTimes] = None
  ): Map[String, Long] = {
    val ends = parts.map(_._2)
    val phases = parts.map(_._1).zip((commitNs +: ends).zip(ends).map { case (a, b) => b - a })
    val endNs = ends.last
    // During the commit, the coordinator runs tasks that a skipped epoch lacks: they open stores
    // later.
    val startNs = trigger
      .map(times => commitNs - MILLISECONDS.toNanos(times.elapsedMs))
      .orElse(firstOpenNs.map(Math.min(_, commitNs)))
    (phases.toMap + ("gateMs" -> (endNs - commitNs)) ++
      startNs.map(start => "epochMs" -> (endNs - start)) ++
      ofSink(commitNs, trigger) ++
      cutNs.map("previousCutMs" -> _)).map { case (phase, ns) => phase -> NANOSECONDS.toMillis(ns) }
  }

  /** The phases before the commit. */
  private def ofSink(commitNs: Long, trigger: Option[TriggerTimes]): Map[String, Long] = {
    val sinkNs = trigger.map(times => commitNs - MILLISECONDS.toNanos(times.addBatchMs))
    val open = firstOpenNs.filter(_ < commitNs)
    val stored = open.map(start => lastAcceptedNs.fold(start)(_.min(commitNs).max(start)))
    val before = trigger.toSeq.flatMap { times =>
      Seq("sourceMs" -> times.sourceMs, "planMs" -> times.planMs).map { case (name, ms) =>
        name -> MILLISECONDS.toNanos(ms)
      }
    }
    val map = for (start <- sinkNs; first <- open) yield "mapMs" -> (first - start).max(0L)
    val state = for (first <- open; last <- stored) yield "stateMs" -> (last - first)
    val sink = stored
      .orElse(sinkNs)
      .map(start => "sinkMs" -> (commitNs - start - sealNs).max(0L))
    before.toMap ++ map ++ state ++ sink ++ Option.when(sealNs > 0)("sealMs" -> sealNs)
  }

  /** The cut of the last epoch was written after [[advance]]. */
  def recordCut(writeNs: Long): Unit = cutNs = Some(writeNs)

  /**
   * The epoch is committed.
   *
   * @param used
   *   the argument of [[costs]]
   * @param writeNs
   *   duration of the write of the cut
   * @return
   *   the figures of its tasks
   */
  def advance(used: UsageBook.Shares, writeNs: Long): EpochTasks = {
    val tasks = new EpochTasks(tookNs, rows, openedNs.keySet)
    before = used
    cutNs = Some(writeNs)
    firstOpenNs = None
    lastAcceptedNs = None
    sealNs = 0L
    openers.clear()
    openedNs = mutable.Map.empty
    tookNs = mutable.Map.empty
    rows = mutable.Map.empty
    places.clear()
    tasks
  }
}

object EpochMeter {

  /** Largest number of slow stores in a cut. */
  val Slowest: Int = 5

  private val Unknown = Place("", "")
}
