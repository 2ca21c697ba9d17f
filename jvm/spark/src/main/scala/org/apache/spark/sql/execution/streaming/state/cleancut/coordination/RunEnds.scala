package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{CountDownLatch, Executors, Future, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.{QueryExecutionThread, StreamExecution}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.util.ShutdownHookManager

import io.cleancut.base.{Clock, DaemonThreads, Recent}

/**
 * Writes the end markers of runs that end for any reason, so that the next run need not wait for
 * them. A run without an end marker counts as running.
 *
 * The end marker is written before `stop()` and `awaitTermination()` return, because the user may
 * delete the checkpoint after that. Spark posts the termination event asynchronously, and has no
 * earlier hook. So the latch of both methods is replaced by a latch that ends the run first. A
 * temporary checkpoint is deleted by Spark before that, see [[beforeDeletion]]. The listener is for
 * runs whose latch could not be replaced.
 *
 * If the JVM of the driver ends by SIGTERM or `System.exit`, runs have no end. Their cuts and log
 * entries that are being written are awaited before the Spark context is stopped.
 */
object RunEnds extends Logging {

  /** How long `stop()` waits for an unresponsive object store. */
  private val StopPatienceMs = 10000L

  // The listeners of a session wait for each other, and must not wait for an unavailable store.
  private val ListenerPatienceMs = 2000L

  /** How long a JVM that ends waits for an unresponsive object store. */
  private val ShutdownPatienceMs = 10000L

  /** Largest number of runs that end concurrently. */
  private val MaxEnds = 1024
  private val ends = new Recent[String, Future[Unit]](MaxEnds)
  private lazy val threads = Executors.newCachedThreadPool(DaemonThreads.named("cleancut-ends"))

  // Once in a JVM. Spark's own hook, which stops the context, has the next lower priority.
  private lazy val shutdownHook = ShutdownHookManager.addShutdownHook(
    ShutdownHookManager.SPARK_CONTEXT_SHUTDOWN_PRIORITY + 1
  )(() => DriverCuts.awaitWrites(ShutdownPatienceMs))

  /** Called while the run is active. */
  private[coordination] def watch(runId: String): Unit = {
    shutdownHook
    RunningQueries.byRun(runId).foreach { query =>
      TerminationLatch.replace(query)(() => end(runId, StopPatienceMs))
      val streams = query.sparkSession.streams
      streams.synchronized {
        if (!streams.listListeners().contains(Listener)) streams.addListener(Listener)
      }
    }
  }

  /** Ends the run whose checkpoint the query's own thread is about to delete. */
  def beforeDeletion(): Unit =
    if (Thread.currentThread.isInstanceOf[QueryExecutionThread])
      SparkCommitter.runOfThread().foreach(end(_, StopPatienceMs))

  /**
   * Stops the query of a run, for threads of that query, which cannot wait for their own end.
   * Returns when Spark regards exceptions of the query as an effect of that.
   */
  private[coordination] def stop(runId: String): Unit =
    RunningQueries.byRun(runId).foreach { query =>
      threads.submit[Unit](() => query.stop())
      try while (query.isActive) Clock.System.sleep(1, TimeUnit.MILLISECONDS)
      catch { case _: InterruptedException => Thread.currentThread.interrupt() }
    }

  /** Waits for the end, also if another thread has begun it. */
  private def end(runId: String, patienceMs: Long): Unit = {
    RunningQueries.unregister(runId)
    try {
      val noted = ends.synchronized {
        if (!ends.containsKey(runId))
          ends.put(runId, threads.submit[Unit](() => DriverCuts.endRun(runId)))
        ends.get(runId)
      }
      noted.get(patienceMs, TimeUnit.MILLISECONDS)
    } catch {
      case NonFatal(e) => logInfo(s"The end marker of run $runId was not written: $e")
    }
  }

  private object Listener extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit = ()
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryIdle(event: QueryIdleEvent): Unit = {
      threads.submit[Unit](() => DriverCuts.endIfAwaited(event.runId.toString))
      ()
    }
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = {
      end(event.runId.toString, ListenerPatienceMs)
      try CutMetrics.end(event.runId.toString)
      catch { case NonFatal(e) => logInfo(s"Metrics of run ${event.runId} were not removed: $e") }
    }
  }
}

/**
 * The latch that Spark opens when a query has terminated.
 *
 * @param spark
 *   Spark's latch, on which callers may already wait
 * @param end
 *   called before either latch is opened
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
        logWarning(s"The end marker of run ${query.runId} may be written after stop() returns", e)
    }
  }
}
