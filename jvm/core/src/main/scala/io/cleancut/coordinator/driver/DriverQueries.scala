package io.cleancut.coordinator.driver

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.cleancut.base.Clock
import io.cleancut.coordinator.QueryCoordinator

/**
 * The queries of a driver, by checkpoint location: all running queries, and the most recent of the
 * others.
 */
final class DriverQueries {
  import DriverQueries._

  // In the order in which they began.
  private val queries = mutable.LinkedHashMap.empty[String, DriverQuery]

  /** Number of running queries. */
  def size: Int = all.count(_.runId.isDefined)

  def all: Seq[DriverQuery] = synchronized(queries.values.toVector)

  def find(location: String): Option[DriverQuery] = synchronized(queries.get(location))

  /** The coordinator of a running query. */
  def of(location: String): Option[QueryCoordinator] = find(location).flatMap(_.cuts)

  /** The coordinator of a run, or of the run that followed it in this process and reports it. */
  def of(location: String, runId: String): Option[QueryCoordinator] =
    find(location).flatMap(_.cuts(runId))

  /** A query that runs, or may run soon. */
  def query(location: String): DriverQuery = synchronized {
    val query = queries.remove(location).getOrElse(new DriverQuery(location))
    queries.put(location, query)
    val idle = queries.values.filter(_.runId.isEmpty).toVector
    idle.dropRight(MaxIdle).foreach(query => queries.remove(query.location))
    query
  }

  /**
   * Creates the coordinator of a run that begins, instead of the coordinator of the previous run.
   *
   * @param isOver
   *   whether a run has ended, even if it has not reported its end
   */
  def begin(location: String, runId: String, isOver: String => Boolean)(
      make: DriverQuery => QueryCoordinator
  ): QueryCoordinator = {
    find(location).flatMap(_.runId).filter(other => other != runId && isOver(other)).foreach(endRun)
    val (cuts, before) = synchronized {
      val entry = query(location)
      entry.begin(runId)(make(entry))
    }
    before.foreach(_.close())
    cuts
  }

  /** A run has ended: writes its end marker, if possible, and closes its coordinator. */
  def endRun(runId: String): Unit =
    all.filter(_.runId.contains(runId)).foreach { query =>
      try query.cuts.foreach(_.endRun(runId))
      finally query.endRun(runId).foreach(_.close())
    }

  /**
   * Waits for the cuts and log entries that are being written, up to a limit and regardless of
   * failures. Runs may begin further writes meanwhile, which are not awaited.
   */
  def awaitWrites(limitMs: Long): Unit = {
    val clock = Clock.System
    val endNs = clock.monotonicNs() + TimeUnit.MILLISECONDS.toNanos(limitMs)
    all.flatMap(_.cuts).foreach { cuts =>
      cuts.awaitWrites(TimeUnit.NANOSECONDS.toMillis(Math.max(0L, endNs - clock.monotonicNs())))
    }
  }

  /** Checks all queries that may have late tasks. */
  def scan(check: QueryCoordinator => Boolean): Unit = all.foreach(_.scan(check))

  /** The application has ended. */
  def clear(): Unit = {
    val known = synchronized {
      val stopped = queries.values.toVector
      queries.clear()
      stopped
    }
    for (query <- known; runId <- query.runId) query.endRun(runId).foreach(_.close())
  }
}

private object DriverQueries {
  private val MaxIdle = 64
}
