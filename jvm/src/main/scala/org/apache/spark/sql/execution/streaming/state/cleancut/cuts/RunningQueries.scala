package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import org.apache.spark.sql.execution.streaming.state.cleancut.session.SessionProvider

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** The queries that run on this driver. */
object RunningQueries {

  private[cleancut] def byRun(runId: String): Option[StreamExecution] = for {
    session <- SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)
    query <- of(session).find(_.runId.toString == runId)
  } yield query

  /** A query runs in a session of its own, in which its batches are made. */
  private[cleancut] def bySession(session: SparkSession): Option[StreamExecution] =
    of(session).find(query => SessionProvider.sessionOf(query) eq session)

  /** The session of its own in which a query runs. */
  def sessionOfRun(session: SparkSession, runId: String): Option[SparkSession] =
    of(session).find(_.runId.toString == runId).map(SessionProvider.sessionOf)

  /** Where the query has its checkpoint that runs in a session. */
  def locationOf(session: SparkSession): Option[String] =
    bySession(session).map(_.resolvedCheckpointRoot)

  private def of(session: SparkSession): Iterable[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala
}
