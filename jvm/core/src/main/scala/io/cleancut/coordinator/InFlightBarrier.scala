package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import io.cleancut.coordinator.state.OperatorReasons
import io.cleancut.format.StoreCut
import io.cleancut.format.cut.{ChannelReading, ChannelReport}
import io.cleancut.protocol.{OffsetEntry, Refusal}

/**
 * The shuffle inputs of the running tasks: the input that each task reads, the tasks that are
 * overtaken, and the inputs that have arrived. The [[EpochRun]] has them, under the lock of the
 * [[RunRegistry]]. Executors are answered without the lock, and no method makes a request.
 */
final private[coordinator] class InFlightBarrier(runs: RunRegistry) {
  import runs.{clock, within}

  /**
   * A task attempt has read a shuffle input to its end, and made its in-flight rows durable. An
   * early report makes stragglers visible earlier; the input counts at the latest with the
   * attempt's delivery.
   */
  def arrived(
      runId: String,
      attempt: Long,
      report: ChannelReport,
      reading: ChannelReading
  ): Either[Refusal, Unit] =
    within(runId)(_.epoch.arrived(attempt, report, reading, clock.monotonicNs()))

  /** The shuffle inputs that have in-flight rows after the last cut. */
  def inFlight(runId: String): Either[Refusal, Seq[StoreCut]] = within(runId)(_.ledger.inFlight)

  /** Batch timestamp of the last committed epoch. */
  def lastTimestampMs(runId: String): Option[Long] =
    within(runId)(_.ledger.lastCut).toOption.flatten
      .flatMap(cut => OffsetEntry.timestampMs(cut.offsets))

  /** Whether an earlier run has made decisions for this epoch and sealed it. */
  def isDecidedBefore(runId: String, epoch: Long): Boolean =
    within(runId)(_.at(epoch).sealedBefore.exists(_.channels.nonEmpty)).getOrElse(false)

  /** Records why operators of this run are aligned, by operator id. */
  def alignedBecause(runId: String, reasons: Map[Long, String]): Unit = {
    within(runId)(run => run.reasons = run.reasons.copy(aligned = reasons))
    ()
  }

  /** Records why PySpark's loops of this run are not replaced, by operator id. */
  def pysparkLoopBecause(runId: String, reasons: Map[Long, String]): Unit = {
    within(runId)(run => run.reasons = run.reasons.copy(pysparkLoop = reasons))
    ()
  }

  def reasons: OperatorReasons =
    runs.locked(runs.current.fold(OperatorReasons.None)(_.reasons))

  /**
   * Completes with the overtaken attempts on an executor, once there are some that it does not
   * know.
   */
  def awaitOvertaken(
      runId: String,
      executor: String,
      known: Set[Long]
  ): CompletableFuture[Set[Long]] = {
    val answer = within(runId)(_.barrier.await(executor, known, clock.monotonicNs()))
    tick()
    answer.getOrElse(CompletableFuture.completedFuture(Set.empty[Long]))
  }

  /**
   * Overtakes all tasks of the current epoch: running tasks stop reading, and tasks that have not
   * begun read nothing.
   *
   * @return
   *   whether an epoch is in progress whose rows may stay in flight
   */
  def cutNow(): Boolean = {
    val isCut = runs.locked(runs.current.exists(_.cutNow(clock.monotonicNs())))
    tick()
    isCut
  }

  /**
   * Checks the time; must be called often while tasks run that may be overtaken.
   *
   * @return
   *   whether there are such tasks, or executors that wait for overtaken tasks
   */
  def tick(): Boolean = {
    val (answers, isWatched) = runs.locked {
      val due = runs.current.toSeq.flatMap(_.tick(clock.monotonicNs()))
      (due, !runs.isClosed && runs.current.exists(_.isWatched))
    }
    answers.foreach(_())
    isWatched
  }
}
