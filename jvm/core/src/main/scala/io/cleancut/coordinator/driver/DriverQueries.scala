package io.cleancut.coordinator.driver

import scala.collection.mutable

import io.cleancut.coordinator.QueryCoordinator

/**
 * The queries of a driver, by checkpoint location: all that run, and of the others those that did
 * last.
 */
final class DriverQueries {
  import DriverQueries._

  // In the order in which they have begun.
  private val queries = mutable.LinkedHashMap.empty[String, DriverQuery]

  /** How many run. */
  def size: Int = all.count(_.runId.isDefined)

  def all: Seq[DriverQuery] = synchronized(queries.values.toVector)

  def find(location: String): Option[DriverQuery] = synchronized(queries.get(location))

  /** The coordinator of a query that runs. */
  def of(location: String): Option[QueryCoordinator] = find(location).flatMap(_.cuts)

  /** That of a run, or of the one by which it was followed here and which says so. */
  def of(location: String, runId: String): Option[QueryCoordinator] =
    find(location).flatMap(_.cuts(runId))

  /** A query that runs, or may soon. */
  def query(location: String): DriverQuery = synchronized {
    val found = queries.remove(location).getOrElse(new DriverQuery(location))
    queries.put(location, found)
    val idle = queries.values.filter(_.runId.isEmpty).toVector
    idle.dropRight(MaxIdle).foreach(of => queries.remove(of.location))
    found
  }

  /**
   * The coordinator of a run that begins, in place of that of the run before it.
   *
   * @param isOver
   *   of a run that may not have said so yet
   */
  def begin(location: String, runId: String, isOver: String => Boolean)(
      make: DriverQuery => QueryCoordinator
  ): QueryCoordinator = {
    find(location).flatMap(_.runId).filter(other => other != runId && isOver(other)).foreach(ended)
    val (cuts, before) = synchronized {
      val of = query(location)
      of.begin(runId)(make(of))
    }
    before.foreach(_.close())
    cuts
  }

  /** A run has ended: it says so, if it can, and its coordinator is closed. */
  def ended(runId: String): Unit =
    all.filter(_.runId.contains(runId)).foreach { query =>
      try query.cuts.foreach(_.ended(runId))
      finally query.ended(runId).foreach(_.close())
    }

  /** Looks for tasks that are late, of all queries that have some which may be. */
  def look(goesOn: QueryCoordinator => Boolean): Unit = all.foreach(_.look(goesOn))

  /** The application has ended. */
  def clear(): Unit = {
    val known = synchronized {
      val found = queries.values.toVector
      queries.clear()
      found
    }
    for (query <- known; runId <- query.runId) query.ended(runId).foreach(_.close())
  }
}

private object DriverQueries {
  private val MaxIdle = 64
}
