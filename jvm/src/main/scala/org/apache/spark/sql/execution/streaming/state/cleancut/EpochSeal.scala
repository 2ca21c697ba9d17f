package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

import io.cleancut.error.Errors

/** The epochs of the queries that run on this driver. */
object EpochSeal {

  /**
   * Runs the tasks of an epoch, keeps the rows of its batch, and seals it.
   *
   * @param batch
   *   what Spark hands to `foreachBatch`
   */
  def run(batch: Dataset[_], epoch: Long): Unit = {
    val query = queryOf(batch).getOrElse(throw Errors.sealMisplaced(epoch))
    val runId = query.runId.toString
    // None where each commit of a store is durable when it returns.
    val cuts = DriverCuts.of(query.resolvedCheckpointRoot)
    cuts.foreach(_.hold(runId, epoch))
    batch.persist()
    try {
      // Spark caches whole rows, also where a count reads none of their columns.
      batch.count()
      cuts.foreach(_.seal(runId, epoch))
    } catch {
      case e: Throwable =>
        batch.unpersist()
        throw e
    }
  }

  private def queryOf(batch: Dataset[_]): Option[StreamExecution] = batch.sparkSession match {
    case session: SparkSession => RunningQueries.bySession(session)
    case _                     => None
  }
}
