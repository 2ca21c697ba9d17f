package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import org.apache.spark.sql.execution.streaming.state.cleancut.session.SessionProvider

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** The queries that run on this driver. */
private[cleancut] object RunningQueries {

  def byRun(runId: String): Option[StreamExecution] = for {
    session <- SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)
    query <- of(session).find(_.runId.toString == runId)
  } yield query

  /** A query runs in a session of its own, in which its batches are made. */
  def bySession(session: SparkSession): Option[StreamExecution] =
    of(session).find(query => SessionProvider.sessionOf(query) eq session)

  private def of(session: SparkSession): Iterable[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala
}
