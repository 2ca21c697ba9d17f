package io.cleancut.coordinator.driver

import io.cleancut.base.{Clock, DaemonThreads, StoreId}
import io.cleancut.coordinator.state.OperatorReasons
import io.cleancut.coordinator.{CutsRuntime, Maintenance, QueryCoordinator}
import io.cleancut.cutstore.usage.Place
import io.cleancut.objectstore.ObjectStore

/**
 * One query of a driver: the coordinator of its current run, and the state that outlives a run.
 * Each run has a separate coordinator with the settings of its start, which is closed when the run
 * has ended.
 *
 * @param location
 *   its checkpoint location
 */
final class DriverQuery private[coordinator] (val location: String) {
  import DriverQuery._

  @volatile private var live = Option.empty[LiveRun]
  @volatile private var reasons = OperatorReasons.None
  private val bases = new BaseHomes
  private val standbys = new Standbys(assigning)

  /** Replaces the runtime of later coordinators. */
  @volatile var runtime = Option.empty[ObjectStore => CutsRuntime]

  def cuts: Option[QueryCoordinator] = live.map(_.cuts)

  /** The coordinator of a run, or of the run that followed it in this process and reports it. */
  def cuts(runId: String): Option[QueryCoordinator] = live.filter(_.isAbout(runId)).map(_.cuts)

  /** The starts of epochs. */
  val starts = new EpochStarts

  /** The pace of epochs. The last configured pace outlives a run. */
  val pace = new EpochPace(Clock.System)

  /** The background work of the driver. */
  val maintenance = new Maintenance(location, () => pace.pace)

  /** The current run. */
  def runId: Option[String] = live.map(_.runId)

  /** Why operators of the last run were not executed as requested, after it has ended. */
  def reasonsBefore: OperatorReasons = reasons

  /** Runs an action on the homes of the stores' bases. */
  def homes[A](action: BaseHomes => A): A = bases.synchronized(action(bases))

  /** The stores whose bases an executor that polls should have. */
  def storesFor(at: Place, replicas: Int): Set[StoreId] = {
    val (expected, placements) = homes { homes =>
      homes.follows(at)
      (homes.expectedAt(at.executor), homes.placements)
    }
    expected ++ standbys.of(at.executor, placements, replicas)
  }

  /** Some of its tasks may be late, or executors wait for overtaken tasks. */
  def watch(): Unit = live.foreach(_.isWatched = true)

  def isWatched: Boolean = live.exists(_.isWatched)

  /**
   * Checks for late tasks, if there may be some.
   *
   * @param check
   *   checks the tasks, and returns whether to check again
   */
  private[cleancut] def scan(check: QueryCoordinator => Boolean): Unit =
    live.filter(_.isWatched).foreach { run =>
      // Before the check: a task that becomes late meanwhile sets the flag again.
      run.isWatched = false
      if (check(run.cuts)) run.isWatched = true
    }

  /**
   * Returns the coordinator of a run that begins, and the coordinator of the previous run, which
   * must be closed.
   */
  private[cleancut] def begin(
      runId: String
  )(make: => QueryCoordinator): (QueryCoordinator, Option[QueryCoordinator]) =
    synchronized {
      live.filter(_.isAbout(runId)) match {
        case Some(known) => (known.cuts, None)
        case None        =>
          val before = live.map(_.cuts)
          starts.runBegins()
          pace.startRun()
          maintenance.startRun()
          val made = make
          before.foreach(made.fenceRunsOf)
          live = Some(new LiveRun(runId, made))
          (made, before)
      }
    }

  /** The run has ended. Returns its coordinator, which must be closed. */
  private[cleancut] def endRun(runId: String): Option[QueryCoordinator] = synchronized {
    val over = live.filter(_.runId == runId).map(_.cuts)
    over.foreach { cuts =>
      reasons = cuts.reasons
      live = None
      starts.runEnded()
      pace.endRun()
    }
    over
  }
}

private object DriverQuery {
  // Shared by all queries, because each computes rarely.
  private lazy val assigning = DaemonThreads.pool("cleancut-standbys", 1)

  final private class LiveRun(val runId: String, val cuts: QueryCoordinator) {
    @volatile var isWatched = false
    def isAbout(other: String): Boolean = other == runId || cuts.hasFenced(other)
  }
}
