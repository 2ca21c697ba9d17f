package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.net.InetAddress

import scala.util.Try

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.streaming.OneTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.QueryExecutionThread
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{RealTime, RunningQueries}

import io.cleancut.coordinator.{QueryCoordinator, SparkLogs}
import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.Errors

/** The gate of one commit log, before the coordinator of its query. */
final class SparkGate(location: String, archive: CutArchive, logs: SparkLogs) extends Gate {
  // Kept from when the thread began: code of the user may change what it finds of itself later.
  @volatile private var run = Option.empty[String]

  override def begin(): Option[Begun] = {
    if (run.isEmpty && SparkGate.isQuerys) run = SparkGate.runOfThread()
    for (runId <- run if SparkGate.isQuerys; cuts <- coordinator(runId)) yield {
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

  override def atStart(name: String)(act: Begun => Unit): Unit =
    for (begun <- begin(); runId <- run; cuts <- coordinator(runId))
      cuts.atStart(runId, name)(act(begun))

  override def checkOwner(): Unit =
    for (runId <- run; cuts <- DriverCuts.of(location, runId)) cuts.checkOwner(runId)

  override def starts: Option[EpochStarts] =
    for (runId <- run; of <- DriverCuts.queries.find(location) if of.runId.contains(runId))
      yield of.starts

  override def commit(epoch: Long, entry: String): String = {
    if (run.isEmpty) run = SparkGate.runOfThread()
    val committed =
      for (runId <- run; cuts <- coordinator(runId))
        yield cuts.commit(runId, epoch, entry, SparkEpochPlan.of(runId, epoch))
    committed.getOrElse {
      throw Errors.coordinatorUnreachable(location, s"epoch $epoch", "this is no query's driver")
    }
  }

  override def rest(): Unit =
    for (
      runId <- run if SparkGate.isQuerys; of <- DriverCuts.queries.find(location)
      if of.runId.contains(runId)
    ) {
      of.maintenance.check()
      of.pace.rest()
    }

  /** Made for the run where it has none yet, which lasts until it ends. */
  private def coordinator(runId: String): Option[QueryCoordinator] = {
    if (DriverCuts.of(location, runId).isEmpty) {
      RunningQueries.register()
      EndOfRuns.watch(runId)
      StoreHomes.begins(location, runId)
      RunningQueries.byRun(runId).foreach(CutMetrics.begin(_, location))
    }
    DriverCuts.begin(location, runId, archive, logs)(SparkGate.host)
  }
}

object SparkGate {

  /** Whether the calling thread is a query's own. */
  private def isQuerys: Boolean = Thread.currentThread.isInstanceOf[QueryExecutionThread]

  /** Spark runs the jobs of a query under the id of its run. */
  private[coordination] def runOfThread(): Option[String] =
    SparkContext.getActive.flatMap(c => Option(c.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)))

  private[cleancut] def host: String =
    Try(InetAddress.getLocalHost.getHostName).getOrElse("unknown")
}
