package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.net.InetAddress
import java.util.concurrent.CompletableFuture

import scala.util.Try

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.streaming.OneTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.QueryExecutionThread
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{RealTime, RunningQueries}

import io.cleancut.base.ProcessWatch
import io.cleancut.coordinator.{QueryCoordinator, SparkLogs}
import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.{CutArchive, Owner}
import io.cleancut.error.Errors

/** Commits epochs of one commit log through the coordinator of its query. */
final class SparkCommitter(location: String, archive: CutArchive, logs: SparkLogs)
    extends QueryCommitter {
  // Read when the thread begins: user code may change local properties later.
  @volatile private var run = Option.empty[String]

  override def begin(): Option[Begun] = {
    if (run.isEmpty && SparkCommitter.isQueryThread) run = SparkCommitter.runOfThread()
    for (runId <- run if SparkCommitter.isQueryThread; cuts <- coordinator(runId)) yield {
      val begun = cuts.begin(runId)
      val trigger = RunningQueries.byRun(runId).map(_.trigger)
      val isSingleEpoch = trigger.contains(OneTimeTrigger)
      begun.copy(
        // Real-time mode plans its epochs when they are over.
        isAlone = begun.isAlone || isSingleEpoch || trigger.exists(RealTime.is),
        isSingleEpoch = isSingleEpoch
      )
    }
  }

  override def atStart(name: String)(action: Begun => Unit): Unit =
    for (begun <- begin(); runId <- run; cuts <- coordinator(runId))
      cuts.atStart(runId, name)(action(begun))

  override def checkOwner(): Unit =
    for (runId <- run; cuts <- DriverCuts.of(location, runId)) cuts.checkOwner(runId)

  override def starts: Option[EpochStarts] =
    for (runId <- run; query <- DriverCuts.queries.find(location) if query.runId.contains(runId))
      yield query.starts

  override def plan(epoch: Long)(write: => Unit): CompletableFuture[Unit] =
    writing(_.plan(_, epoch)(write)).getOrElse(super.plan(epoch)(write))

  override def record(write: => Unit): CompletableFuture[Unit] =
    writing(_.record(_)(write)).getOrElse(super.record(write))

  private def writing(
      begin: (QueryCoordinator, String) => CompletableFuture[Unit]
  ): Option[CompletableFuture[Unit]] =
    for (runId <- run; cuts <- DriverCuts.of(location, runId)) yield begin(cuts, runId)

  override def commit(epoch: Long, entry: String)(written: String => Unit): String = {
    if (run.isEmpty) run = SparkCommitter.runOfThread()
    val committed =
      for (runId <- run; cuts <- coordinator(runId))
        yield cuts.enqueue(runId, epoch, entry, SparkEpochPlan.of(runId, epoch))(written)
    committed.getOrElse {
      throw Errors.coordinatorUnreachable(location, s"epoch $epoch", "this is no query's driver")
    }
  }

  override def pause(): Unit =
    for (
      runId <- run if SparkCommitter.isQueryThread; query <- DriverCuts.queries.find(location)
      if query.runId.contains(runId)
    ) {
      query.maintenance.check()
      query.pace.pause()
    }

  /** Creates the coordinator of the run if necessary. It lives until the run ends. */
  private def coordinator(runId: String): Option[QueryCoordinator] = {
    if (DriverCuts.of(location, runId).isEmpty) {
      DriverCuts.parked.await(location)
      RunningQueries.register()
      RunEnds.watch(runId)
      StoreHomes.startRun(location, runId)
      RunningQueries.byRun(runId).foreach(CutMetrics.begin(_, location))
    }
    DriverCuts.begin(location, runId, archive, logs)(SparkCommitter.host)
  }
}

object SparkCommitter {

  /** Whether the calling thread belongs to a query. */
  private def isQueryThread: Boolean = Thread.currentThread.isInstanceOf[QueryExecutionThread]

  /**
   * The run of the calling thread; Spark runs the jobs of a query with the ID of its run as group.
   */
  private[coordination] def runOfThread(): Option[String] =
    SparkContext.getActive.flatMap(c => Option(c.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)))

  /** Watches the driver of a run. */
  private[cleancut] def watch(owner: Owner): ProcessWatch =
    ProcessWatch.of(owner.address, isHere = owner.host == host)

  private[cleancut] def host: String =
    Try(InetAddress.getLocalHost.getHostName).getOrElse("unknown")
}
