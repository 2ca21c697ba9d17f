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
 * Sets Cleancut's provider for the queries of a session that sets no provider itself.
 *
 * Spark refuses a query in real-time mode if its session sets any provider except RocksDB, and
 * checks that session only. Each query then runs in a copy of the session. The provider is set in
 * the copy after that check, and before Spark reads it. The offset log therefore records it from
 * the first epoch, and a query that started with another provider keeps that one after a restart.
 */
object SessionProvider {

  /** Called for every plan that a session analyzes, because sessions have no hook. */
  def check(session: AnySession)(plan: LogicalPlan): Unit = session match {
    case classic: SparkSession if plan.isStreaming && isRequested(classic) =>
      val streams = classic.streams
      streams.synchronized {
        if (!streams.listListeners().exists(_.isInstanceOf[SetOnStart])) {
          streams.addListener(new SetOnStart(classic))
        }
      }
    case _ =>
  }

  private def isRequested(session: SparkSession): Boolean =
    Keys.RealTimeMode.read(session.conf.getAll) match {
      case Right(isRequested) => isRequested
      case Left(problem)      => throw Errors.confInvalid(Seq(problem))
    }

  /** Spark calls `onQueryStarted` first, in the thread of the query. */
  private class SetOnStart(session: SparkSession) extends StreamingQueryListener with Logging {
    override def onQueryStarted(event: QueryStartedEvent): Unit = {
      val runConf = RunningQueries.sessionOfRun(session, event.runId.toString).map(_.conf)
      runConf.filter(conf => isRequested(session) && !conf.contains(ProviderKey)).foreach { conf =>
        conf.set(ProviderKey, ClassNames.StateStoreProvider)
      }
    }
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
  }

  private val ProviderKey = SQLConf.STATE_STORE_PROVIDER_CLASS.key
}
