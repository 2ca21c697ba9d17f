package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{Executors, TimeUnit}

import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.rpc.RpcEnv
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.CutsAtRest
import org.apache.spark.sql.execution.streaming.state.cleancut.history.{DriverWeather, EpochFeed}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries
import org.apache.spark.sql.execution.streaming.state.cleancut.ui.CutsUi
import org.apache.spark.{SparkContext, SparkEnv}

import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.coordinator.{CutsRuntime, Maintenance, QueryCoordinator, SparkLogs}
import io.cleancut.coordinator.driver.{DriverQueries, EpochPace, EpochStarts}
import io.cleancut.coordinator.state.CutsStatus
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.Errors
import io.cleancut.objectstore.ObjectStore
import io.cleancut.protocol.Refusal

/** The queries of this driver, and the endpoint at which their tasks find them. */
object DriverCuts extends Logging {
  private[coordination] val queries = new DriverQueries
  private var served = Option.empty[RpcEnv]

  // Tasks are late by tenths of a second; looking so often costs a driver next to nothing.
  private val TickMs = 10L
  private lazy val watching = {
    val timer =
      Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("cleancut-barrier"))
    val look: Runnable = () => queries.look(goesOn)
    timer.scheduleWithFixedDelay(look, TickMs, TickMs, TimeUnit.MILLISECONDS)
  }

  /** Looks for tasks of a query that hold its epoch up, as long as some may. */
  private[cleancut] def watch(location: String): Unit = {
    queries.find(location).foreach(_.watch())
    watching
    ()
  }

  private[cleancut] def isWatched(location: String): Boolean =
    queries.find(location).exists(_.isWatched)

  // The timer drops a task that throws, so that a fatal error would end the scan for all queries.
  private def goesOn(cuts: QueryCoordinator): Boolean =
    try cuts.tick()
    catch {
      case e: Throwable =>
        logError("The scan for stragglers failed and is repeated", e)
        true
    }

  /** A run has ended. */
  private[coordination] def ended(runId: String): Unit = queries.ended(runId)

  /** The query's coordinator, where it runs on this driver. */
  def of(location: String): Option[QueryCoordinator] = queries.of(location)

  /** The coordinator of a run that has begun here. */
  def of(location: String, runId: String): Option[QueryCoordinator] = queries.of(location, runId)

  /**
   * Of a query that runs on this driver its coordinator; of any other one that knows what the store
   * does, by the settings of a session.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, nothing there is committed by cuts
   */
  def within[A](location: String, session: SparkSession)(act: QueryCoordinator => A): A =
    of(location).fold {
      val conf = session.sessionState.newHadoopConf()
      val atRest = CutsAtRest.of(location, conf)
      Using.resource(atRest.getOrElse(throw Errors.coordinatorMissing(location)))(act)
    }(act)

  /** Where a query stands, also one that has ended or not begun. */
  def status(location: String, session: SparkSession): CutsStatus =
    within(location, session) { cuts =>
      val found = cuts.status
      if (found.run.isDefined) found
      else found.copy(aligned = queries.find(location).fold(found.aligned)(_.alignedBefore))
    }

  /** Where the epochs of a query begin that runs on this driver, or may soon. */
  def starts(location: String): EpochStarts = queries.query(location).starts

  /** How fast the epochs of such a query may follow each other. */
  def pace(location: String): EpochPace = queries.query(location).pace

  /** What is done beside them. */
  def maintenance(location: String): Maintenance = queries.query(location).maintenance

  /** Whether no epoch of a query is under way here. */
  def isBetween(location: String): Boolean =
    queries.find(location).forall { query =>
      query.cuts.forall(cuts => query.starts.isBehind(cuts.status.committed))
    }

  /** For what a task asks: the coordinator of its run, or the answer. */
  private def coordinatorFor(message: CutsMessage): Either[CutsReply, QueryCoordinator] = {
    val of = message match {
      case that: RunMessage => Some(that.runId)
      case that: Failed     => Some(that.runId)
      case _: Accepted      => None
      case _: AskBases      => None
    }
    val found = of.fold(queries.of(message.location))(queries.of(message.location, _))
    found.toRight {
      // Whatever a late task asks for, its run is not to begin once more.
      def running = queries.find(message.location).flatMap(_.runId)
      def owner = running.map(run => s"run $run of the same driver")
      val ended = of.filter(RunningQueries.byRun(_).isEmpty)
      owner.filter(_ => of.isDefined).map(Refusal.Fenced(_)) match {
        case Some(why) => Declined(why)
        case None      => ended.fold[CutsReply](NoQuery)(run => Declined(Refusal.Ended(run)))
      }
    }
  }

  /** What the coordinators of a location run on from now on, in place of the usual. */
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

  /** That of an act on the checkpoint of a query that does not run, which has a run of its own. */
  private[cleancut] def beginAct(
      location: String,
      runId: String,
      archive: CutArchive,
      logs: SparkLogs
  ): QueryCoordinator = begin(location, runId, archive, logs)(SparkGate.host).getOrElse {
    throw Errors.coordinatorMissing(location)
  }

  /** The act is over. */
  private[cleancut] def endAct(runId: String): Unit = ended(runId)

  private def usual(location: String, runId: String, archive: CutArchive) = {
    val feed = RunningQueries.byRun(runId).map(EpochFeed(_, location, archive, pace(location)))
    val maintenance = queries.query(location).maintenance
    CutsRuntime
      .onThreads(archive.store, Clock.System)
      .copy(watcher = feed, maintenance = Some(maintenance))
  }

  private def listen(env: RpcEnv): Unit = synchronized {
    if (!served.exists(_ eq env)) {
      // Of an application that has ended in this process: its executors' ids are given again.
      queries.clear()
      SparkContext.getActive.foreach { context =>
        context.addSparkListener(StoreHomes.Removals)
        context.addSparkListener(DriverWeather)
        CutsUi.askForNotes(of(_).flatMap(_.lastNotes))
        CutsUi.attach(context)
      }
      env.setupEndpoint(CutsEndpoint.Name, new CutsEndpoint(env, coordinatorFor))
      served = Some(env)
    }
  }
}
