package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{Executors, TimeUnit}

import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.rpc.RpcEnv
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.StoppedQueryCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.history.{
  DriverHealth,
  EpochFeed,
  StageTimes
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries
import org.apache.spark.sql.execution.streaming.state.cleancut.ui.{CutsUi, LiveQueries}
import org.apache.spark.{SparkContext, SparkEnv}

import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.conf.Settings
import io.cleancut.coordinator.{CutsRuntime, Maintenance, QueryCoordinator, SparkLogs}
import io.cleancut.coordinator.driver.{DriverQueries, EpochPace, EpochStarts, ParkedRuns}
import io.cleancut.coordinator.state.CutsStatus
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.Errors
import io.cleancut.objectstore.ObjectStore
import io.cleancut.protocol.Refusal

/** The queries of this driver, and the endpoint for their tasks. */
object DriverCuts extends Logging {
  private[coordination] val queries = new DriverQueries

  /** The locations at which the next run waits before it takes ownership. */
  val parked = new ParkedRuns(Clock.System)
  private var served = Option.empty[RpcEnv]

  CutsUi.setLive(LiveQueries(of(_).flatMap(_.lastNotes), () => parked.all))

  // Tasks are late by tenths of a second; a scan costs a driver almost nothing.
  private val TickMs = 10L
  private lazy val watching = {
    val timer =
      Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("cleancut-barrier"))
    val scan: Runnable = () => queries.scan(isMoreToCheck)
    timer.scheduleWithFixedDelay(scan, TickMs, TickMs, TimeUnit.MILLISECONDS)
  }

  /** Scans for stragglers of a query, while there may be some. */
  private[cleancut] def watch(location: String): Unit = {
    queries.find(location).foreach(_.watch())
    watching
    ()
  }

  private[cleancut] def isWatched(location: String): Boolean =
    queries.find(location).exists(_.isWatched)

  // The timer drops a task that throws, so that a fatal error would end the scan for all queries.
  private def isMoreToCheck(cuts: QueryCoordinator): Boolean =
    try cuts.tick()
    catch {
      case e: Throwable =>
        logError("The scan for stragglers failed and is repeated", e)
        true
    }

  /** A run has ended. */
  private[coordination] def endRun(runId: String): Unit = queries.endRun(runId)

  /** Waits for the cuts and log entries that all runs are writing, up to a limit. */
  private[coordination] def awaitWrites(limitMs: Long): Unit = queries.awaitWrites(limitMs)

  /** A run has no new input: it ends if a successor waits for that. */
  private[coordination] def endIfAwaited(runId: String): Unit =
    queries.all.filter(_.runId.contains(runId)).flatMap(_.cuts).foreach(_.endIfAwaited(runId))

  /** The query's coordinator, if it runs on this driver. */
  def of(location: String): Option[QueryCoordinator] = queries.of(location)

  /** The coordinator of a run that has begun here. */
  def of(location: String, runId: String): Option[QueryCoordinator] = queries.of(location, runId)

  /**
   * The coordinator of a query that runs on this driver; for another query a coordinator that only
   * reads the object store, with the settings of a session.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING if the checkpoint has no cuts
   */
  def within[A](location: String, session: SparkSession)(action: QueryCoordinator => A): A =
    of(location).fold {
      val conf = session.sessionState.newHadoopConf()
      val atRest = StoppedQueryCuts.of(location, conf)
      Using.resource(atRest.getOrElse(throw Errors.coordinatorMissing(location)))(action)
    }(action)

  /** The status of a query, also if it has ended or not begun. */
  def status(location: String, session: SparkSession): CutsStatus =
    within(location, session) { cuts =>
      val current = cuts.status
      if (current.run.isDefined) current
      else
        current.copy(reasons = queries.find(location).fold(current.reasons)(_.reasonsBefore))
    }

  /** The starts of epochs of a query that runs on this driver, or may run soon. */
  def starts(location: String): EpochStarts = queries.query(location).starts

  /** The pace of epochs of the query. */
  def pace(location: String): EpochPace = queries.query(location).pace

  /** The background work of the query. */
  def maintenance(location: String): Maintenance = queries.query(location).maintenance

  /** Whether no epoch of a query is in progress here. */
  def isBetween(location: String): Boolean =
    queries.find(location).forall { query =>
      query.cuts.forall(cuts => query.starts.isBehind(cuts.status.committed))
    }

  /** The coordinator of the run in a message, or the answer. */
  private def coordinatorFor(message: CutsMessage): Either[CutsReply, QueryCoordinator] = {
    val runId = message match {
      case that: RunMessage => Some(that.runId)
      case that: Failed     => Some(that.runId)
      case _: Accepted      => None
      case _: AskBases      => None
    }
    val coordinator = runId.fold(queries.of(message.location))(queries.of(message.location, _))
    coordinator.toRight {
      // A late task must not start its run again.
      def running = queries.find(message.location).flatMap(_.runId)
      def owner = running.map(run => s"run $run of the same driver")
      val ended = runId.filter(RunningQueries.byRun(_).isEmpty)
      owner.filter(_ => runId.isDefined).map(Refusal.Fenced(_)) match {
        case Some(why) => Declined(why)
        case None      => ended.fold[CutsReply](NoQuery)(run => Declined(Refusal.Ended(run)))
      }
    }
  }

  /** Replaces the runtime of later coordinators at a location. */
  def runOn(location: String)(runtime: ObjectStore => CutsRuntime): Unit =
    queries.query(location).runtime = Some(runtime)

  /** The coordinator of a run that begins, if this is a driver. */
  private[cleancut] def begin(
      location: String,
      runId: String,
      archive: CutArchive,
      logs: SparkLogs
  )(
      host: => String
  ): Option[QueryCoordinator] = {
    val env = SparkEnv.get
    Option.when(env != null && env.executorId == "driver") {
      listen(env.rpcEnv)
      queries.begin(location, runId, RunningQueries.byRun(_).isEmpty) { query =>
        val runtime = query.runtime.fold(usual(location, runId, archive))(_(archive.store))
        new QueryCoordinator(archive, logs, host, runtime)
      }
    }
  }

  /** The coordinator of an operation on the checkpoint of a stopped query, as a separate run. */
  private[cleancut] def beginOperation(
      location: String,
      runId: String,
      archive: CutArchive,
      logs: SparkLogs
  ): QueryCoordinator = begin(location, runId, archive, logs)(SparkCommitter.host).getOrElse {
    throw Errors.coordinatorMissing(location)
  }

  /** The operation is over. */
  private[cleancut] def endOperation(runId: String): Unit = endRun(runId)

  private def usual(location: String, runId: String, archive: CutArchive) = {
    val query = RunningQueries.byRun(runId)
    val feed = query.map(EpochFeed(_, location, archive, pace(location)))
    val maintenance = queries.query(location).maintenance
    val settings = query.map(q => Settings.from(RunningQueries.sessionOf(q).conf.getAll))
    CutsRuntime
      .onThreads(archive.store, Clock.System)
      .copy(
        watcher = feed,
        maintenance = Some(maintenance),
        handoverMs = settings.fold(0L)(_.handoverTimeoutMs),
        stopQuery = RunEnds.stop,
        address = Option(SparkEnv.get.rpcEnv.address).map(_.hostPort),
        watch = SparkCommitter.watch
      )
  }

  private def listen(env: RpcEnv): Unit = synchronized {
    if (!served.exists(_ eq env)) {
      // Listeners of an earlier application in this process: executor IDs are reused.
      queries.clear()
      SparkContext.getActive.foreach { context =>
        context.addSparkListener(StoreHomes.Removals)
        context.addSparkListener(DriverHealth)
        context.addSparkListener(StageTimes)
        CutsUi.attach(context)
      }
      env.setupEndpoint(CutsEndpoint.Name, new CutsEndpoint(env, coordinatorFor))
      served = Some(env)
    }
  }
}
