package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.StoppedQueryCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.OfflinePlace

import io.cleancut.error.Errors

/** The start of a query that waits before it takes ownership, while another driver runs it. */
object ParkedStart {
  private val Name = "successor"

  /**
   * Parks the next run at a location.
   *
   * @return
   *   the location as Spark resolves it, by which it is released
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if the query runs in this driver, if its runs have no owner, or if
   *   the location is parked already
   */
  def park(session: SparkSession, location: String): String = {
    val place = OfflinePlace.of(session, location, Name)
    def refuse(reason: String) = throw Errors.operationRefused(Name, place.location, reason)
    if (DriverCuts.of(place.location).isDefined)
      refuse("the query runs in this driver; start its successor in another driver")
    if (StoppedQueryCuts.parts(place.location, session.sessionState.newHadoopConf()).isEmpty)
      refuse("its epochs are not committed by cuts, so two drivers would run it concurrently")
    if (!place.hasCutPerEntry)
      refuse("its epochs are committed by cuts, and this session was not set up")
    if (!DriverCuts.parked.park(place.location))
      refuse("this driver has prepared a successor already")
    place.location
  }

  /** Deletes a clone with all objects below its location. */
  def deleteClone(session: SparkSession, location: String): Unit = {
    val place = OfflinePlace.of(session, location, Name)
    place.files.delete(new Path(place.location))
  }
}
