package org.apache.spark.sql.execution.streaming.state.cleancut.operations.running

import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.locks.ReentrantLock

import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.{
  IncrementalExecution,
  MicroBatchExecution,
  MicroBatchExecutionContext,
  StreamExecution
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.EpochLogs
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries

import io.cleancut.base.Clock

/**
 * A running query between two epochs. The query's thread is about to plan the next epoch and waits
 * for the lock of the query's progress, which the caller of [[EpochBoundary.within]] holds. So the
 * caller may change what this thread reads next.
 *
 * @param plan
 *   plan of the last epoch
 */
final private[running] class EpochBoundary private (
    query: MicroBatchExecution,
    context: MicroBatchExecutionContext,
    plan: IncrementalExecution
) {

  /** The epoch that Spark would plan next. */
  def next: Long = context.batchId

  /**
   * Lets the query continue after epochs that it has not planned itself, with an epoch without
   * input whose entry is in the offset log. As in the first epoch of a run, Spark derives
   * partitions, watermarks and operator metadata from the logs.
   *
   * @param epoch
   *   the epoch without input
   * @param ids
   *   IDs of the state versions before it, if Spark counts versions
   */
  def continueWith(epoch: Long, ids: Option[Map[Long, Array[Array[String]]]]): Unit = {
    // The log is listed: it accepts only entries that the run has written or listed.
    val recorded = query.offsetLog
      .getLatest()
      .collect { case (`epoch`, entry) => entry }
      .flatMap(EpochLogs.recorded(_))
      .getOrElse(throw new IllegalStateException(s"epoch $epoch is not the last in the offset log"))
    OffsetSeqMetadata.setSessionConf(recorded, RunningQueries.sessionOf(query).sessionState.conf)
    ids.foreach(plan.currentStateStoreCkptId ++= _)
    // Spark may have asked for the watermarks of an epoch that others have planned since.
    plan.watermarkPropagator.purge(epoch)
    // Executors free the stores of the previous partitions at their next maintenance.
    query.sparkSession.streams.stateStoreCoordinator.deactivateInstances(query.runId)
    context.offsetSeqMetadata = recorded
    context.endOffsets = context.startOffsets
    context.previousContext = None
    context.batchId = epoch
    context.isCurrentBatchConstructed = true
  }
}

private[running] object EpochBoundary {
  private val PollMs = 1L

  /** Time after which other users of the lock have a turn. */
  private val HoldMs = 20L

  // Protected in Scala and public in the class file. It is looked up early, before it is required.
  private val lockMethod = classOf[StreamExecution].getMethod("awaitProgressLock")

  /**
   * Runs an action at the next boundary. No epoch is in progress meanwhile.
   *
   * @param committed
   *   the last committed epoch of the query
   * @param timeoutMs
   *   limit of the wait for the boundary
   * @return
   *   None if the query has ended, or the time is over
   */
  def within[A](
      query: MicroBatchExecution,
      committed: () => Option[Long],
      timeoutMs: Long,
      clock: Clock
  )(action: EpochBoundary => A): Option[A] = {
    val lock = lockMethod.invoke(query).asInstanceOf[ReentrantLock]
    val endNs = clock.monotonicNs() + MILLISECONDS.toNanos(timeoutMs)
    def isLeft(untilNs: Long) = query.isActive && untilNs - clock.monotonicNs() > 0
    // The lock is fair: the query's thread has its turn whenever it is released.
    def isQueued = lock.hasQueuedThread(query.queryExecutionThread)
    var result = Option.empty[A]
    while (result.isEmpty && isLeft(endNs)) {
      lock.lock()
      try {
        val turnNs = clock.monotonicNs() + MILLISECONDS.toNanos(HoldMs)
        while (!isQueued && isLeft(turnNs)) clock.sleep(PollMs, MILLISECONDS)
        result = Option.when(isQueued)(boundary(query, committed())).flatten.map(action)
      } finally lock.unlock()
    }
    result
  }

  /**
   * The boundary at which the query's thread waits for the lock. It also takes the lock at the
   * commit of an epoch, whose batch is constructed then, and at the end of a trigger.
   */
  private def boundary(
      query: MicroBatchExecution,
      committed: Option[Long]
  ): Option[EpochBoundary] = query.getLatestExecutionContext() match {
    case context: MicroBatchExecutionContext
        if context.currentStatus.isTriggerActive && !context.isCurrentBatchConstructed &&
          committed.contains(context.batchId - 1) =>
      for {
        last <- context.previousContext
        plan <- Option(last.executionPlan)
      } yield new EpochBoundary(query, context, plan)
    case _ => None
  }
}
