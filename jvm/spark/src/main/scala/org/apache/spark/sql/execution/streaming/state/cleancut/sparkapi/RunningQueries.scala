package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{
  QueryExecutionThread,
  StreamExecution,
  StreamingQueryWrapper
}

/**
 * The queries that run on this driver.
 *
 * Spark's register of active queries is not usable: if Spark refuses the second of two concurrent
 * starts of a query, it keeps the refused run there, and not the active one. Therefore the thread
 * of a run registers it here at the start. Runs without a coordinator are in the query managers of
 * the sessions, which contain started runs only.
 */
object RunningQueries extends Logging {
  private val registered = new ConcurrentHashMap[String, StreamExecution]

  /** Registers the run to which the calling thread belongs, until [[unregister]]. */
  private[cleancut] def register(): Unit = Thread.currentThread match {
    case thread: QueryExecutionThread =>
      queryOf(thread).foreach(query => registered.put(query.runId.toString, query))
    case _ => ()
  }

  private[cleancut] def unregister(runId: String): Unit = {
    registered.remove(runId)
    ()
  }

  /** The thread is an inner object of its query. Spark has no other access to the query. */
  private def queryOf(thread: QueryExecutionThread): Option[StreamExecution] =
    try
      thread.getClass.getDeclaredFields
        .find(field => classOf[StreamExecution].isAssignableFrom(field.getType))
        .map { field =>
          field.setAccessible(true)
          field.get(thread).asInstanceOf[StreamExecution]
        }
    catch {
      case e: ReflectiveOperationException =>
        logWarning(s"${thread.getName} is not registered by its run", e)
        None
    }

  private[cleancut] def byRun(runId: String): Option[StreamExecution] =
    Option(registered.get(runId)).filter(_.isActive).orElse {
      for {
        session <- SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)
        query <- queries(session).find(_.runId.toString == runId)
      } yield query
    }

  /** A query runs in a separate session, which creates its batches. */
  private[cleancut] def bySession(session: SparkSession): Option[StreamExecution] =
    queries(session).find(query => sessionOf(query) eq session)

  /** The separate session of a run. */
  def sessionOfRun(session: SparkSession, runId: String): Option[SparkSession] =
    queries(session).find(_.runId.toString == runId).map(sessionOf)

  /** The checkpoint location of the query that runs in a session. */
  def locationOf(session: SparkSession): Option[String] =
    bySession(session).map(_.resolvedCheckpointRoot)

  // Protected in Scala and public in the class file. It is looked up early, before a query requires
  // it.
  private val sessionMethod = classOf[StreamExecution].getMethod("sparkSessionForStream")

  /** The session of a query. */
  private[cleancut] def sessionOf(query: StreamExecution): SparkSession =
    sessionMethod.invoke(query).asInstanceOf[SparkSession]

  private def queries(session: SparkSession): Iterable[StreamExecution] =
    registered.values.asScala.filter(_.isActive) ++ started(session)

  private def started(session: SparkSession): Iterable[StreamExecution] = {
    val sessions = session.sharedState.activeStreamingQueries.values.asScala.map(_.sparkSession)
    (sessions.toSet + session).flatMap { each =>
      each.streams.active.collect { case wrapper: StreamingQueryWrapper => wrapper.streamingQuery }
    }
  }
}
