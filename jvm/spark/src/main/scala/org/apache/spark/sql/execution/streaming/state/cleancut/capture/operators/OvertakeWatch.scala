package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.{
  AwaitOvertaken,
  CutsClient,
  OvertakenReply
}

import io.cleancut.base.{Clock, DaemonThreads}

/** Whether an attempt is overtaken. Set from any thread, and once. */
final private[cleancut] class OvertakeFlag {
  @volatile private var raised = false
  private var raisedNs = 0L
  private var listener: () => Unit = () => ()

  def isRaised: Boolean = raised

  /** Time by the monotonic clock of this process; None if it is not set. */
  def sinceNs: Option[Long] = synchronized(Option.when(raised)(raisedNs))

  def raise(): Unit = synchronized {
    if (!raised) {
      raisedNs = Clock.System.monotonicNs()
      raised = true
      listener()
    }
  }

  /** Calls `action` once it is set, immediately if it already is. For one listener. */
  def onRaise(action: () => Unit): Unit = synchronized {
    listener = action
    if (raised) action()
  }
}

/**
 * The overtaken task attempts of this process. It has one open request at the driver for each query
 * run with tasks here.
 */
private[cleancut] object OvertakeWatch extends Logging {
  private val watches = new ConcurrentHashMap[(String, String), Watch]

  def executor: String = SparkEnv.get.executorId

  /** The flag of an attempt, which is set when it is overtaken. Closed with the task. */
  def register(
      location: String,
      runId: String,
      attempt: Long,
      requestTimeoutMs: Long
  ): OvertakeFlag =
    watches
      .compute(
        (location, runId),
        (_, known) => {
          val isKnown = known != null && known.isAlive
          val watch = if (isKnown) known else new Watch(location, runId, requestTimeoutMs)
          watch.flags.computeIfAbsent(attempt, _ => new OvertakeFlag)
          watch
        }
      )
      .flags
      .get(attempt)

  def remove(location: String, runId: String, attempt: Long): Unit = {
    val watch = watches.get((location, runId))
    if (watch != null) watch.flags.remove(attempt)
    ()
  }

  final private class Watch(location: String, runId: String, requestTimeoutMs: Long)
      extends Runnable {
    val flags = new ConcurrentHashMap[Long, OvertakeFlag]
    @volatile private var hasEnded = false
    private val name = "cleancut-overtaken"
    DaemonThreads.named(name).newThread(this).start()

    def isAlive: Boolean = !hasEnded

    override def run(): Unit =
      try {
        var known = Map.empty[Long, Long]
        while (!retire()) {
          val question = AwaitOvertaken(location, runId, executor, known.keysIterator.toSet)
          CutsClient.ask(question, Clock.System, requestTimeoutMs) match {
            case OvertakenReply(attempts) =>
              val nowNs = Clock.System.monotonicNs()
              attempts.foreach(a => Option(flags.get(a)).foreach(_.raise()))
              known = retain(known, flags.containsKey(_), nowNs) ++ attempts.map(_ -> nowNs)
            case _ => Clock.System.sleep(PauseMs, TimeUnit.MILLISECONDS)
          }
        }
      } catch {
        case NonFatal(e) => logWarning(s"Tasks of $location can no longer be overtaken", e)
      } finally hasEnded = true

    /** Ends with the last task; a later task gets another watch. */
    private def retire(): Boolean = {
      val key = (location, runId)
      val left = watches.computeIfPresent(key, (_, watch) => if (flags.isEmpty) null else watch)
      left ne this
    }
  }

  /**
   * The attempts that the driver need not report again, each with the time of its report. The
   * driver drops attempts when their epoch commits, without notifying executors. An attempt that
   * has ended is therefore only removed after [[RetainNs]]: the driver answers immediately with
   * attempts of the current epoch that are missing here.
   */
  private[operators] def retain(
      known: Map[Long, Long],
      isRunning: Long => Boolean,
      nowNs: Long
  ): Map[Long, Long] =
    known.filter { case (attempt, sinceNs) => isRunning(attempt) || nowNs - sinceNs < RetainNs }

  private[operators] val RetainNs = TimeUnit.MINUTES.toNanos(1)
  private val PauseMs = 1000L
}
