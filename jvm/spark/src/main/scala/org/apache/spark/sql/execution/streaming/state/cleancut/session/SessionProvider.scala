package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

import io.cleancut.base.ClassNames
import io.cleancut.conf.Keys
import io.cleancut.error.Errors

/**
 * Gives the queries of a session Cleancut's provider where the session names no provider itself.
 *
 * Spark refuses a query in real-time mode when its session names any provider but RocksDB, and
 * looks at that session alone. Each query then runs in a copy of the session. The provider is set
 * in the copy after that check, and before Spark reads it: so the offset log records it from the
 * first epoch on, and a query that began on another provider keeps that one when it is restarted.
 */
object SessionProvider {

  /** Called with every plan that a session analyses, because no session has a hook of its own. */
  def check(session: AnySession)(plan: LogicalPlan): Unit = session match {
    case classic: SparkSession if plan.isStreaming && isAsked(classic) =>
      val streams = classic.streams
      streams.synchronized {
        if (!streams.listListeners().exists(_.isInstanceOf[SetOnStart])) {
          streams.addListener(new SetOnStart(classic))
        }
      }
    case _ =>
  }

  private def isAsked(session: SparkSession): Boolean =
    Keys.RealTimeMode.read(session.conf.getAll) match {
      case Right(asked)  => asked
      case Left(problem) => throw Errors.confInvalid(Seq(problem))
    }

  /** Spark calls `onQueryStarted` in the query's own thread before it does anything else there. */
  private class SetOnStart(session: SparkSession) extends StreamingQueryListener with Logging {
    override def onQueryStarted(event: QueryStartedEvent): Unit = {
      val own = RunningQueries.sessionOfRun(session, event.runId.toString).map(_.conf)
      own.filter(conf => isAsked(session) && !conf.contains(ProviderKey)).foreach { conf =>
        conf.set(ProviderKey, ClassNames.StateStoreProvider)
      }
    }
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
  }

  private val ProviderKey = SQLConf.STATE_STORE_PROVIDER_CLASS.key
}
