package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{CountDownLatch, Executors, Future, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.{QueryExecutionThread, StreamExecution}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

import io.cleancut.base.{DaemonThreads, Recent}

/**
 * Has runs that end say so, for whatever reason they do, so that the next one need not reckon with
 * them. One that could not is taken for one that goes on.
 *
 * What the end of a run writes is written before `stop()` and `awaitTermination()` return, because
 * the user may delete the checkpoint after that. Spark posts the termination event asynchronously,
 * and has no hook that runs earlier, so that the latch on which both methods depend is replaced by
 * one that ends the run first. A temporary checkpoint is deleted by Spark before that: see
 * [[beforeDeletion]]. The listener is for runs whose latch could not be replaced.
 */
object EndOfRuns extends Logging {

  /** How long `stop()` waits for a store that does not answer. */
  private val StopPatienceMs = 10000L

  // The listeners of a session wait for each other, and are not to wait for a store that is away.
  private val ListenerPatienceMs = 2000L

  /** More runs than end at the same time. */
  private val MaxEnds = 1024
  private val ends = new Recent[String, Future[Unit]](MaxEnds)
  private lazy val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-ends"))

  /** To be called while the run goes on. */
  private[coordination] def watch(runId: String): Unit =
    RunningQueries.byRun(runId).foreach { query =>
      TerminationLatch.replace(query)(() => end(runId, StopPatienceMs))
      val streams = query.sparkSession.streams
      streams.synchronized {
        if (!streams.listListeners().contains(Listener)) streams.addListener(Listener)
      }
    }

  /** Ends the run whose checkpoint the query's own thread is about to delete. */
  def beforeDeletion(): Unit =
    if (Thread.currentThread.isInstanceOf[QueryExecutionThread])
      SparkGate.runOfThread().foreach(end(_, StopPatienceMs))

  /** Waits for the end, also for one that another thread has begun. */
  private def end(runId: String, patienceMs: Long): Unit = {
    RunningQueries.unregister(runId)
    try {
      val noted = ends.synchronized {
        if (!ends.containsKey(runId))
          ends.put(runId, threads.submit[Unit](() => DriverCuts.ended(runId)))
        ends.get(runId)
      }
      noted.get(patienceMs, TimeUnit.MILLISECONDS)
    } catch {
      case NonFatal(e) => logInfo(s"The end of run $runId is not noted: $e")
    }
  }

  private object Listener extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit = ()
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = {
      end(event.runId.toString, ListenerPatienceMs)
      try CutMetrics.end(event.runId.toString)
      catch { case NonFatal(e) => logInfo(s"Metrics of run ${event.runId} are left: $e") }
    }
  }
}

/**
 * The latch that Spark opens when a query has terminated.
 *
 * @param spark
 *   the query's own latch, on which callers may wait already
 * @param end
 *   runs before either is opened
 */
final private class TerminationLatch(spark: CountDownLatch, end: () => Unit)
    extends CountDownLatch(1) {

  override def countDown(): Unit =
    try end()
    finally {
      spark.countDown()
      super.countDown()
    }
}

private object TerminationLatch extends Logging {
  private val Field = "terminationLatch"

  /** At most once for a query. */
  def replace(query: StreamExecution)(end: () => Unit): Unit = query.synchronized {
    try {
      val field = classOf[StreamExecution].getDeclaredField(Field)
      field.setAccessible(true)
      val spark = field.get(query).asInstanceOf[CountDownLatch]
      if (!spark.isInstanceOf[TerminationLatch]) field.set(query, new TerminationLatch(spark, end))
    } catch {
      case e: ReflectiveOperationException =>
        logWarning(s"What the end of run ${query.runId} writes may come after stop() returns", e)
    }
  }
}
