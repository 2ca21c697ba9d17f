package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.net.InetAddress

import scala.util.Try

import org.apache.spark.SparkContext

import io.cleancut.Clock
import io.cleancut.cuts.{CutArchive, QueryCuts, SparkLogs}
import io.cleancut.error.Errors
import io.cleancut.files.Gate

/** The gate of one commit log, before the coordinator of its query. */
final class SparkGate(location: String, archive: CutArchive, logs: SparkLogs) extends Gate {
  @volatile private var run = Option.empty[String]

  override def enter(): Unit = if (run.isEmpty) run = SparkGate.runOfThread()

  override def commit(epoch: Long, entry: String): Unit = {
    enter()
    SparkGate.serve(location, archive, logs)
    val cuts = DriverCuts.of(location)
    (cuts, run) match {
      case (Some(coordinator), Some(runId)) =>
        coordinator.commit(runId, epoch, entry, SparkEpochPlan.of(runId, epoch))
      case _ =>
        throw Errors.coordinatorUnreachable(location, s"epoch $epoch", "this is no query's driver")
    }
  }
}

object SparkGate {

  /** Lets the tasks of a query with this checkpoint location find their coordinator here. */
  def serve(location: String, archive: CutArchive, logs: SparkLogs): Unit =
    DriverCuts.serve(location)(new QueryCuts(archive, logs, host, Clock.System))

  /** Spark runs the jobs of a query under the id of its run; code of the user may change that. */
  private def runOfThread(): Option[String] =
    SparkContext.getActive.flatMap(c => Option(c.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)))

  private def host: String = Try(InetAddress.getLocalHost.getHostName).getOrElse("unknown")
}
