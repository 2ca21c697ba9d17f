package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.concurrent.{Executors, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

import io.cleancut.DaemonThreads

/**
 * Has runs that end say so, for whatever reason they do, so that the next one need not reckon with
 * them. One that could not is taken for one that goes on.
 */
private[cuts] object EndOfRuns extends Logging {
  // The listeners of a session wait for each other, and are not to wait for a store that is away.
  private val PatienceMs = 2000L
  private lazy val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-ends"))

  /** To be called while the run goes on. */
  def watch(runId: String): Unit = RunningQueries.byRun(runId).foreach { query =>
    val streams = query.sparkSession.streams
    streams.synchronized {
      if (!streams.listListeners().contains(Listener)) streams.addListener(Listener)
    }
  }

  private object Listener extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit = ()
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
      try {
        val noted = threads.submit[Unit](() => DriverCuts.ended(event.runId.toString))
        CutMetrics.end(event.runId.toString)
        noted.get(PatienceMs, TimeUnit.MILLISECONDS)
      } catch {
        case NonFatal(e) => logInfo(s"The end of run ${event.runId} is not noted: $e")
      }
  }
}
