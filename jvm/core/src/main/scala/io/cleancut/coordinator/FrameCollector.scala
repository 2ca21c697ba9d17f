package io.cleancut.coordinator

import java.util.concurrent.CompletableFuture

import scala.util.control.NonFatal

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state._
import io.cleancut.cutstore.usage.Sender
import io.cleancut.protocol.{Ack, Refusal}
import io.cleancut.format.{PlacedFrame, StoreCut}
import io.cleancut.format.cut.{RunId, SealedFrame}

/**
 * Collects the frames of the tasks: the stores that each task opens, and the frames that are
 * durable. When a task is answered, its frames outlive its executor and will be durable before the
 * epoch is visible. The [[EpochRun]] has them, under the lock of the [[RunRegistry]]; frames are
 * written without the lock.
 */
final private[coordinator] class FrameCollector(runs: RunRegistry, claims: EpochClaims) {
  import runs.{clock, runOf, runtime, segmentsOf, within}
  import runtime.packer

  /** A task attempt begins. Its shuffle inputs count as opened before its stores. */
  def start(runId: String, task: TaskStart): Either[Refusal, TaskStarted] =
    claims.claimed(runId, task.version).flatMap { _ =>
      within(runId) { run =>
        for {
          channels <- all(task.channels)(channel => run.openChannel(channel, clock.monotonicNs()))
          stores <- all(task.stores)(open(run, task, _))
        } yield {
          val named = task.stores.zip(stores).toMap
          val others =
            run.ledger.storesOfTask(task.operator, task.partition).filterNot(named.contains)
          val further = others.flatMap(store => open(run, task, store).toOption.map(store -> _))
          TaskStarted(named ++ further, task.channels.map(_.channel).zip(channels).toMap)
        }
      }.flatten
    }

  private def open(run: QueryRun, task: TaskStart, store: StoreId): Either[Refusal, Opened] = {
    val opened = run.open(task.attempt, store, task.version)
    if (opened.isRight) run.meter.openedBy(task.attempt, store, task.at)
    // A task that takes over a version reports no frame that could be measured.
    if (opened.exists(_.sealedChain.isEmpty))
      run.meter.opened(task.attempt, store, clock.monotonicNs())
    opened.map(_.copy(mayDeferBase = run.begun.isSuccessor))
  }

  private def all[A, B](
      items: Seq[A]
  )(action: A => Either[Refusal, B]): Either[Refusal, Vector[B]] =
    items.foldLeft[Either[Refusal, Vector[B]]](Right(Vector.empty)) { (done, one) =>
      done.flatMap(before => action(one).map(before :+ _))
    }

  /** The id of a version that counts; None if the cuts do not know the store. */
  def accepted(store: StoreId, version: Long): Option[String] = runs.locked {
    runs.current.flatMap(_.ledger.accepted(store, version))
  }

  /**
   * The frames of a version, for a task of a run; None if it is not the version of the last cut.
   */
  def chain(runId: String, store: StoreId, version: Long): Either[Refusal, Option[StoreCut]] =
    within(runId)(_.ledger.chain(store, version))

  /** A task attempt failed. Its reports do not count. */
  def fail(runId: String, attempt: Long): Unit = runs.locked {
    runs.ifCurrent(runId).foreach { run =>
      run.ledger.fail(attempt)
      run.epoch.channels.stragglers.endAttempt(attempt)
    }
  }

  /** Records the sender of a task attempt's report, for the costs only. */
  def recordSender(runId: String, attempt: Long, from: Sender): Unit = runs.locked {
    runs.recordSender(from)
    runs.ifCurrent(runId).foreach(_.meter.recordSender(attempt, from))
  }

  /**
   * The identity under which an executor writes segments of this run, once the entry of the current
   * epoch exists.
   */
  def writer(runId: String): Either[Refusal, RunId] =
    runOf(runId).flatMap(claims.planned).map(_.id)

  /**
   * An executor writes a base of a version to a separate segment. From now on garbage collection
   * does not delete the segment. The executor repeats the announcement while it writes.
   */
  def announce(runId: String, segment: String, version: Long): Either[Refusal, Unit] =
    within(runId)(_.ledger.announce(segment, version, clock.monotonicNs())).flatten

  /**
   * A task attempt is done: reports what it has read of its shuffle inputs, and then its frames.
   *
   * @return
   *   for each frame the answer of [[submit]], then the answer of [[report]] for frames that are
   *   already durable
   */
  def deliver(
      runId: String,
      made: Delivery
  ): Either[Refusal, CompletableFuture[Seq[Option[Ack]]]] = {
    val nowNs = clock.monotonicNs()
    val arrived = within(runId) { run =>
      made.arrivals.foreach(arrival =>
        run.epoch.arrived(made.attempt, arrival.report, arrival.reading, nowNs)
      )
      made.rows.foreach(run.meter.read(made.attempt, _))
    }
    arrived.map { _ =>
      val answers =
        made.frames.map(submit(runId, _)) ++ made.placed.map(frame => Some(report(runId, frame)))
      CompletableFuture
        .allOf(answers.flatten: _*)
        .thenApply(_ => answers.map(_.map(_.join())))
    }
  }

  /**
   * An executor made a frame durable. The answer completes when the task may continue: the commit
   * of an epoch waits for all frames that its tasks did not wait for.
   */
  def report(runId: String, frame: PlacedFrame): CompletableFuture[Ack] =
    answered(runId)(ack(_, frame))

  /**
   * Writes a small frame together with others, at the latest when its epoch may be complete.
   *
   * @return
   *   None if too much is waiting, so that the executor should write the frame; otherwise the
   *   answer of [[report]]
   */
  def submit(runId: String, frame: SealedFrame): Option[CompletableFuture[Ack]] =
    runOf(runId) match {
      case Left(why)  => Some(CompletableFuture.completedFuture[Ack](Ack.Unknown(why)))
      case Right(run) =>
        runs.locked(run.keep(frame)) match {
          case Some(ack) =>
            Some(answered(runId) { run =>
              run.meter.accepted(frame.attempt, frame.name.store, clock.monotonicNs())
              ack
            })
          // The executor waits for the entry of the epoch when it requests the identity.
          case None if !run.writer.isIdle => None
          case None                       =>
            val segments = segmentsOf(run, frame.name.version.number - 1)
            packer.trySubmit(segments, frame).map(_.thenCompose[Ack](report(runId, _)))
        }
    }

  private def ack(run: QueryRun, frame: PlacedFrame): Ack = {
    val ack = run.ledger.ack(frame)
    if (ack == Ack.Accepted) {
      run.meter.accepted(frame.attempt, frame.name.store, clock.monotonicNs())
    }
    ack
  }

  private def answered(runId: String)(ack: QueryRun => Ack): CompletableFuture[Ack] =
    within(runId)(run => (run, ack(run), run.epoch.due())) match {
      case Left(why)                    => CompletableFuture.completedFuture[Ack](Ack.Unknown(why))
      case Right((_, ack, None))        => CompletableFuture.completedFuture(ack)
      case Right((run, ack, Some(due))) =>
        runtime.requests.execute(() => writeDue(run, due))
        due.all.thenApply[Ack](_ => ack)
    }

  def flush(run: QueryRun, epoch: Long): Unit = {
    def pending = Some(run.epoch).filter(_.epoch == epoch)
    writeAndAck(run, runs.locked(pending.toSeq.flatMap(_.release())))
    runs.locked(pending.foreach(_.released()))
  }

  /** Writes frames of one epoch without the lock, then acknowledges them to the ledger. */
  private def writeAndAck(run: QueryRun, frames: Seq[SealedFrame]): Unit =
    frames.headOption.foreach { first =>
      val placed = packer.write(segmentsOf(run, first.name.version.number - 1), frames)
      // The lock is released between groups, so that tasks can submit frames.
      placed.grouped(FrameCollector.MaxAcked).foreach { some =>
        runs.locked(some.foreach(run.ledger.ack))
      }
    }

  private def writeDue(run: QueryRun, due: EarlyFrames.Write): Unit =
    try {
      writeAndAck(run, due.frames)
      runs.locked(run.epoch.wrote(due))
      due.done.complete(())
      ()
    } catch {
      // Includes errors that end the thread, such as an OutOfMemoryError; otherwise tasks would
      // wait forever.
      case e: Throwable =>
        runs.locked(run.epoch.failed(due))
        due.done.completeExceptionally(e)
        if (!NonFatal(e)) throw e
    }
}

private object FrameCollector {

  /** Frames that are acknowledged in one hold of the lock: about a millisecond. */
  private val MaxAcked = 500
}
