package io.cleancut.coordinator.driver

import io.cleancut.base.{Clock, DaemonThreads, StoreId}
import io.cleancut.coordinator.{CutsRuntime, Maintenance, QueryCoordinator}
import io.cleancut.cutstore.usage.Place
import io.cleancut.objectstore.ObjectStore

/**
 * One query of a driver: the coordinator of the run that goes on, and what outlives a run. Each run
 * has a coordinator of its own, with the settings that it was started with; when the run has ended
 * it is closed.
 *
 * @param location
 *   its checkpoint location
 */
final class DriverQuery private[coordinator] (val location: String) {
  import DriverQuery._

  @volatile private var live = Option.empty[LiveRun]
  @volatile private var reasons = Map.empty[Long, String]
  private val bases = new BaseHomes
  private val standbys = new Standbys(assigning)

  /** What its coordinators run on from now on, in place of the usual. */
  @volatile var runtime = Option.empty[ObjectStore => CutsRuntime]

  def cuts: Option[QueryCoordinator] = live.map(_.cuts)

  /** That of a run, or of the one by which it was followed here and which says so. */
  def cuts(runId: String): Option[QueryCoordinator] = live.filter(_.isAbout(runId)).map(_.cuts)

  /** Where epochs begin. */
  val starts = new EpochStarts

  /** How fast they may follow each other: what was asked of it last outlives a run. */
  val pace = new EpochPace(Clock.System)

  /** What its driver does beside them. */
  val maintenance = new Maintenance(location, () => pace.pace)

  /** The run that goes on. */
  def runId: Option[String] = live.map(_.runId)

  /** Why operators of the last run were aligned, when it has ended. */
  def alignedBefore: Map[Long, String] = reasons

  /** Where the bases of its stores are. */
  def homes[A](act: BaseHomes => A): A = bases.synchronized(act(bases))

  /** The stores whose bases an executor that polls should have. */
  def wantedAt(at: Place, replicas: Int): Set[StoreId] = {
    val (expected, placements) = homes { homes =>
      homes.follows(at)
      (homes.expectedAt(at.executor), homes.placements)
    }
    expected ++ standbys.of(at.executor, placements, replicas)
  }

  /** Some of its tasks may be late, or ask whether they are. */
  def watch(): Unit = live.foreach(_.isWatched = true)

  def isWatched: Boolean = live.exists(_.isWatched)

  /**
   * Looks for tasks that are late, if some may be.
   *
   * @param goesOn
   *   looks, and tells whether to look again
   */
  private[cleancut] def look(goesOn: QueryCoordinator => Boolean): Unit =
    live.filter(_.isWatched).foreach { run =>
      // Before it looks: who begins to be late meanwhile says so again.
      run.isWatched = false
      if (goesOn(run.cuts)) run.isWatched = true
    }

  /** The coordinator of a run that begins, and that of the run before it, which is to be closed. */
  private[cleancut] def begin(
      runId: String
  )(make: => QueryCoordinator): (QueryCoordinator, Option[QueryCoordinator]) =
    synchronized {
      live.filter(_.isAbout(runId)) match {
        case Some(known) => (known.cuts, None)
        case None        =>
          val before = live.map(_.cuts)
          starts.runBegins()
          pace.begins()
          maintenance.begins()
          val made = make
          before.foreach(made.follow)
          live = Some(new LiveRun(runId, made))
          (made, before)
      }
    }

  /** The run has ended; gives its coordinator, which is to be closed. */
  private[cleancut] def ended(runId: String): Option[QueryCoordinator] = synchronized {
    val over = live.filter(_.runId == runId).map(_.cuts)
    over.foreach { cuts =>
      reasons = cuts.aligned
      live = None
      starts.runEnded()
      pace.ended()
    }
    over
  }
}

private object DriverQuery {
  // Of all queries, since each computes seldom.
  private lazy val assigning = DaemonThreads.pool("cleancut-standbys", 1)

  final private class LiveRun(val runId: String, val cuts: QueryCoordinator) {
    @volatile var isWatched = false
    def isAbout(other: String): Boolean = other == runId || cuts.hasFollowed(other)
  }
}
