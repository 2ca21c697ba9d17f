package io.cleancut.cuts

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.cleancut.Recent

/**
 * The coordinators of the runs that go on in a driver, by checkpoint location. Each run has one of
 * its own, with the settings that it was started with. When the run has ended it is closed, and
 * nothing is left of it but why operators were aligned, for the last runs.
 */
final class LiveRuns {
  import LiveRuns._

  private val runs = new ConcurrentHashMap[String, LiveRun]
  private val reasons = new Recent[String, Map[Long, String]](MaxEnded)

  def size: Int = runs.size

  def of(location: String): Option[QueryCuts] = Option(runs.get(location)).map(_.cuts)

  /** That of a run, or of the one by which it was followed here and which says so. */
  def of(location: String, runId: String): Option[QueryCuts] =
    Option(runs.get(location)).filter(_.isAbout(runId)).map(_.cuts)

  /** The run whose coordinator this is. */
  def runAt(location: String): Option[String] = Option(runs.get(location)).map(_.runId)

  /**
   * The coordinator of a run that begins, in place of that of the run before it.
   *
   * @param isOver
   *   of a run that may not have said so yet
   */
  def begin(location: String, runId: String, isOver: String => Boolean)(
      make: => QueryCuts
  ): QueryCuts = {
    runAt(location).filter(other => other != runId && isOver(other)).foreach(ended)
    var replaced = Option.empty[LiveRun]
    val live = runs.compute(
      location,
      (_, known) =>
        if (known != null && known.isAbout(runId)) known
        else {
          replaced = Option(known)
          val made = make
          replaced.foreach(earlier => made.follow(earlier.cuts))
          new LiveRun(runId, made)
        }
    )
    replaced.foreach(_.cuts.close())
    live.cuts
  }

  /** A run has ended: it says so, if it can, and is forgotten. */
  def ended(runId: String): Unit = {
    val found = runs.asScala.filter { case (_, run) => run.runId == runId }
    found.foreach { case (location, run) =>
      try run.cuts.ended(runId)
      finally if (runs.remove(location, run)) forget(location, run)
    }
  }

  /** Why operators of the last run at a location were aligned, where it has ended of late. */
  def alignedBefore(location: String): Map[Long, String] =
    reasons.synchronized(reasons.getOrDefault(location, Map.empty))

  /** The application has ended. */
  def clear(): Unit = runs.asScala.foreach { case (location, run) =>
    if (runs.remove(location, run)) run.cuts.close()
  }

  private def forget(location: String, run: LiveRun): Unit = {
    val aligned = run.cuts.aligned
    reasons.synchronized(reasons.put(location, aligned))
    run.cuts.close()
  }
}

private object LiveRuns {
  private val MaxEnded = 64

  final private class LiveRun(val runId: String, val cuts: QueryCuts) {
    def isAbout(other: String): Boolean = other == runId || cuts.hasFollowed(other)
  }
}
