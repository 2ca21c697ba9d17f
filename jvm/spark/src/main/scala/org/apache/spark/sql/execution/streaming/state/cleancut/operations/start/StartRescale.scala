package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.OfflineOperation
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  EpochLogs,
  OfflinePlace,
  StoredQuery
}

import io.cleancut.conf.Settings
import io.cleancut.error.CleancutException

/** Rescales the state of a query to the configured number of partitions when it starts. */
object StartRescale extends Logging {

  /**
   * Runs before Spark reads the checkpoint: Spark then resumes from the epoch of the rescale as
   * from any other. A rescale that is not possible now is postponed to the next start.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_REWRITE_MISMATCH; the checkpoint is unchanged
   */
  def run(checkpoint: Path, settings: Settings): Unit =
    for {
      partitions <- settings.statePartitions if !DriverCuts.parked.isParked(checkpoint.toString)
      session <- sessionOf()
    } {
      val place = OfflinePlace.of(session, checkpoint.toString, "rescale")
      for (now <- partitionsOf(place) if now != partitions)
        try {
          logInfo(s"Rescales ${place.location} from $now to $partitions partitions")
          OfflineOperation.rescale(partitions).run(session, place.location)
          ()
        } catch {
          case e: CleancutException if e.getErrorId == Refused =>
            logWarning(s"The query starts with $now instead of $partitions partitions", e)
        }
    }

  private def sessionOf(): Option[classic.SparkSession] =
    SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).collect {
      case session: classic.SparkSession => session
    }

  /** None if no epoch is committed yet. */
  private def partitionsOf(place: OfflinePlace): Option[Int] = {
    val logs = place.logs
    for {
      (last, _) <- logs.commitLog.getLatest()
      offsets <- logs.offsetLog.get(last)
      recorded <- EpochLogs.recorded(offsets)
    } yield StoredQuery.partitionsIn(recorded)
  }

  private val Refused = "CLEANCUT_OPERATION_REFUSED"
}
