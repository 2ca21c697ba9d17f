package org.apache.spark.sql.execution.streaming.state.cleancut.operations.running

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.DrainPlan
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.CheckpointLogs
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  OfflineOperation,
  OfflinePlan
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.OfflinePlace
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{RealTime, RunningQueries}

import io.cleancut.base.Clock
import io.cleancut.coordinator.QueryCoordinator
import io.cleancut.error.{CleancutException, Errors}

/**
 * Rescales a query between two of its epochs, while it runs. The operation is the same as for a
 * stopped query, by reference; it belongs to the run of the query, which keeps its ownership. Then
 * the run continues as it would after a restart: with an epoch without input, on the new
 * partitions.
 *
 * A failure before the operation's entry of the offset log leaves the query as it was. After a
 * later failure, Spark and the checkpoint may differ, so the query is stopped.
 */
final class RunningRescale private (
    query: MicroBatchExecution,
    cuts: QueryCoordinator,
    place: OfflinePlace,
    partitions: Int,
    fileSink: Option[String],
    clock: Clock
) extends Logging {
  import RunningRescale.Name

  private val location = place.location
  private val rescale = OfflineOperation
    .rescale(partitions)
    .copy(fileSink = fileSink, runId = Some(query.runId))

  private def run(timeoutMs: Long): OfflinePlan =
    EpochBoundary.within(query, () => committed(), timeoutMs, clock)(runAt) match {
      case Some(Right(plan)) => plan
      case Some(Left(error)) =>
        // It waits for the query's thread, which waits for the lock at the boundary.
        query.stop()
        throw error
      case None =>
        val reason =
          if (query.isActive) s"no epoch of this run has ended within $timeoutMs ms"
          else "the query has ended"
        throw Errors.operationRefused(Name, location, reason)
    }

  /** The last committed epoch, once the cut that is being written exists. */
  private def committed(): Option[Long] = {
    cuts.awaitWrites(query.runId.toString)
    cuts.status.committed
  }

  private def runAt(boundary: EpochBoundary): Either[CleancutException, OfflinePlan] = {
    val offsets = new Path(location, CheckpointLogs.Offsets)
    val files = place.filesAt(offsets)
    def isPlanned = files.exists(new Path(offsets, boundary.next.toString))
    try {
      val plan = rescale.run(place.session, location)
      val commit = place.logs.commitLog.get(plan.epoch)
      val planned = cuts.lastCut.filter(_.epoch == plan.epoch).flatMap {
        DrainPlan.after(_, offsets, files, clock)
      }
      val epoch = planned.getOrElse {
        throw new IllegalStateException(s"epoch ${plan.epoch + 1} was planned by another run")
      }
      boundary.continueWith(epoch, commit.flatMap(_.stateUniqueIds))
      logInfo(
        s"Rescaled $location from ${plan.partitionsBefore} to ${plan.partitions} partitions in " +
          s"epoch ${plan.epoch}"
      )
      Right(plan)
    } catch {
      case e: Throwable if isUncertain(isPlanned) =>
        Left(Errors.rescaleInterrupted(location, partitions, boundary.next, e))
    }
  }

  /** Whether the offset log has the entry of the operation, or cannot be read. */
  private def isUncertain(isPlanned: => Boolean): Boolean =
    try isPlanned
    catch { case NonFatal(_) => true }
}

object RunningRescale {
  private val Name = "rescale"

  /**
   * Rescales a query of this driver and returns the executed plan.
   *
   * @param fileSink
   *   output path of Spark's file sink, if the query has one
   * @param timeoutMs
   *   limit of the wait for the end of an epoch
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING; CLEANCUT_OPERATION_REFUSED, the query continues unchanged;
   *   CLEANCUT_RESCALE_INTERRUPTED, the query is stopped
   */
  def run(
      location: String,
      partitions: Int,
      fileSink: Option[String],
      timeoutMs: Long,
      clock: Clock
  ): OfflinePlan = {
    def refused(reason: String) = throw Errors.operationRefused(Name, location, reason)
    val cuts = DriverCuts.of(location).getOrElse(throw Errors.coordinatorMissing(location))
    val query = cuts.status.run.flatMap(run => RunningQueries.byRun(run.runId)) match {
      // Its subclass writes the logs asynchronously.
      case Some(query: MicroBatchExecution) if query.getClass == classOf[MicroBatchExecution] =>
        query
      case Some(query) => refused(s"a ${query.getClass.getSimpleName} has no epochs to wait for")
      case None        => throw Errors.coordinatorMissing(location)
    }
    if (RealTime.is(query.trigger)) {
      refused("in real-time mode epochs are planned when they are over; stop the query first")
    }
    if (query.sink.isInstanceOf[FileStreamSink] && fileSink.isEmpty) {
      refused("it writes to Spark's file sink, which counts epochs; pass the path as file_sink")
    }
    val place = OfflinePlace.of(RunningQueries.sessionOf(query), location, Name)
    new RunningRescale(query, cuts, place, partitions, fileSink, clock).run(timeoutMs)
  }
}
