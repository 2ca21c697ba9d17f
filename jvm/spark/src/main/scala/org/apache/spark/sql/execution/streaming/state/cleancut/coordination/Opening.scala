package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SharedStores
import org.apache.spark.{SparkContext, TaskContext}

import io.cleancut.base.{Clock, StoreId}
import io.cleancut.conf.Keys
import io.cleancut.coordinator.state.{Opened, TaskStart}
import io.cleancut.error.Errors
import io.cleancut.format.cut.SealedFrame

/**
 * Opens a store at the driver. Without state.
 *
 * @param isOfOperation
 *   whether an offline operation opens the store, and not its query
 */
final private[coordination] class Opening(
    store: StoreId,
    checkpoint: String,
    runId: String,
    isOfOperation: Boolean,
    requestTimeoutMs: Long,
    clock: Clock
) {

  /** A task is about to write the version after this one. */
  def open(version: Long): Opened = {
    val start = startAt(version)
    ofTask.fold(started(start))(_.open(start)) match {
      case Right(opened) if opened.unread.nonEmpty =>
        throw Errors.inFlightNotConsumed(checkpoint, version - 1, opened.unread)
      case Right(opened)        => opened
      case Left(_) if isOfBatch => Opened(accepted(version), needsBase = false)
      // The driver would commit without a cut, and would not notice that cuts exist.
      case Left(NoQuery) if !SharedStores.isInBucket(new Path(checkpoint)) =>
        val reason = s"it has cuts, or ${Keys.Cuts.name} is true"
        throw Errors.cutsRequired(checkpoint, reason, "Spark's commit log is not kept by Cleancut")
      case Left(other) =>
        throw GroupedFrame.errorOf(other, checkpoint, version, s"$store $version")
    }
  }

  /** The ID of the version that counts, for reading. */
  def accepted(version: Long): Option[String] = {
    // A query task that reads a store opens it for writing afterwards; an offline operation need
    // not.
    val opens = runId.nonEmpty && !isOfOperation
    val known = if (opens) ofTask.flatMap(_.opened(startAt(version)).toOption) else None
    if (version == 0L) None
    else
      known.map(_.accepted).getOrElse {
        CutsClient.ask(Accepted(checkpoint, store, version), clock, requestTimeoutMs) match {
          case AcceptedReply(counted) => counted
          case _                      => None
        }
      }
  }

  /**
   * Whether this is not a task of the given run, whose jobs have its ID. Up to Spark 4.2 the state
   * reader opens a store for writing, in an artificial run, only to register the family that it
   * reads; 4.3 opens it for reading. The driver refuses its commits.
   */
  private def isOfBatch: Boolean = !isOfOperation &&
    Option(TaskContext.get()).exists(_.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID) != runId)

  private def startAt(version: Long) =
    TaskStart(attempt, store.operator, store.partition, version, Seq(store))

  def ofTask: Option[OperatorTask] =
    OperatorTask.current(checkpoint, runId, store.operator, requestTimeoutMs)

  /** Opens a store outside a task. */
  private def started(start: TaskStart): Either[CutsReply, Opened] =
    OperatorTask.ask(checkpoint, runId, start, requestTimeoutMs) match {
      case StartReply(started) => Right(started.stores(store))
      case other               => Left(other)
    }

  /** The attempt of this thread's task; maintenance has none. */
  def attempt: Long = Option(TaskContext.get()).fold(SealedFrame.Maintenance)(_.taskAttemptId())
}
