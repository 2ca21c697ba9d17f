package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import io.cleancut.format.StoreCut
import io.cleancut.format.cut.{ChannelReading, ChannelReport}
import io.cleancut.protocol.{OffsetEntry, Refusal}

/**
 * The shuffle inputs of the running tasks: which task reads which, which tasks are overtaken, and
 * what has arrived. The [[EpochRun]] has them, under the lock of the [[RunRegistry]]; executors are
 * answered without the lock, and nothing here does a request.
 */
final private[coordinator] class InFlightBarrier(runs: RunRegistry) {
  import runs.{clock, within}

  /**
   * A task attempt has read a channel to its end, and made durable what it left in flight. Who is
   * told it at once knows the sooner which tasks are late; it counts with what the attempt delivers
   * at the latest.
   */
  def arrived(
      runId: String,
      attempt: Long,
      report: ChannelReport,
      reading: ChannelReading
  ): Either[Refusal, Unit] =
    within(runId)(_.epoch.arrived(attempt, report, reading, clock.monotonicNs()))

  /** The channels that hold rows behind the last cut. */
  def inFlight(runId: String): Either[Refusal, Seq[StoreCut]] = within(runId)(_.ledger.inFlight)

  /** Batch timestamp of the last epoch that was committed. */
  def lastTimestampMs(runId: String): Option[Long] =
    within(runId)(_.ledger.lastCut).toOption.flatten
      .flatMap(cut => OffsetEntry.timestampMs(cut.offsets))

  /** Whether an earlier run has decided on channels of this epoch, and let its sink write. */
  def isDecidedBefore(runId: String, epoch: Long): Boolean =
    within(runId)(_.at(epoch).sealedBefore.exists(_.channels.nonEmpty)).getOrElse(false)

  /** Why operators of this run cannot be captured, by their ids. */
  def alignedBecause(runId: String, reasons: Map[Long, String]): Unit = {
    within(runId)(_.aligned = reasons)
    ()
  }

  def aligned: Map[Long, String] =
    runs.locked(runs.current.fold(Map.empty[Long, String])(_.aligned))

  /** The attempts on an executor that are overtaken, as soon as there are some that it misses. */
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
   * Cuts the epoch that runs: every task of it stops to take rows in, and those that have not begun
   * take none.
   *
   * @return
   *   whether an epoch runs whose rows may stay in flight
   */
  def cutNow(): Boolean = {
    val isCut = runs.locked(runs.current.exists(_.cutNow(clock.monotonicNs())))
    tick()
    isCut
  }

  /**
   * Looks at the time; to be called often while tasks run that may be overtaken.
   *
   * @return
   *   whether there are such tasks, or executors that ask for them
   */
  def tick(): Boolean = {
    val (answers, goesOn) = runs.locked {
      val due = runs.current.toSeq.flatMap(_.tick(clock.monotonicNs()))
      (due, !runs.isClosed && runs.current.exists(_.isWatched))
    }
    answers.foreach(_())
    goesOn
  }
}
