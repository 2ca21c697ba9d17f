package io.cleancut.coordinator

import java.io.InterruptedIOException
import java.util.concurrent.TimeUnit

import scala.util.Using

import org.slf4j.LoggerFactory

import io.cleancut.base.ProcessWatch
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.cutstore.{CutArchive, Taken}

/**
 * The handover of a query from a run to its successor (rules T1 to T3): the successor waits until
 * the run has committed its epoch and ended, so that no epoch runs twice and no run fails. It takes
 * the query in any case when its time is over, or when the driver of the run has died. Holds no
 * lock.
 */
final private[coordinator] class Handover(archive: CutArchive, runtime: CutsRuntime) {
  import Handover._
  import archive.owners
  import runtime.clock

  /**
   * Waits for the end of the run before, if the owner object says so, and takes the query. The cuts
   * must be listed after that.
   */
  def awaitTurn(taken: Taken): Taken = taken.waitsFor.fold(taken) { before =>
    logger.info(
      s"Generation ${taken.generation} of ${archive.location} waits up to " +
        s"${runtime.handoverMs} ms for the end of generation $before"
    )
    val hasEnded = awaitEnd(before)
    owners.takeOver(taken.generation)
    if (!hasEnded)
      logger.warn(
        s"Generation $before of ${archive.location} has not recorded its end within " +
          s"${runtime.handoverMs} ms, or its driver has died; generation ${taken.generation} " +
          "takes the query"
      )
    taken.copy(isAlone = hasEnded)
  }

  /** Waits for the end marker of a generation; returns whether it exists. */
  private def awaitEnd(generation: Long): Boolean = {
    val endNs = clock.monotonicNs() + TimeUnit.MILLISECONDS.toNanos(runtime.handoverMs)
    val (owner, isKnown) =
      runtime.reads.both(owners.find(generation), owners.hasEnded(generation))
    Using.resource(owner.fold(ProcessWatch.Unknown)(runtime.watch)) { driver =>
      var (hasEnded, isOver) = (isKnown, false)
      while (!hasEnded && !isOver) {
        // A driver may write the marker and then exit, so the marker is requested afterwards.
        isOver = driver.isGone(waitMs = 0L) || clock.monotonicNs() >= endNs
        if (!isOver) clock.sleep(PollMs, TimeUnit.MILLISECONDS)
        hasEnded = owners.hasEnded(generation)
      }
      hasEnded
    }
  }

  /** Requests the next owner, until one has been found; returns whether it exists. */
  def isFollowed(run: QueryRun): Boolean = run.successor.isDefined || {
    val owner = owners.find(run.id.generation + 1)
    run.successor = owner.filter(_.waitsFor.contains(run.id.generation))
    owner.isDefined
  }

  /**
   * Whether the next owner, which [[isFollowed]] has found, waits for the end of a run and has not
   * taken the query. The run may then complete its epoch, and must plan no other one. Another owner
   * that is later than the successor ends the run.
   */
  def isAwaited(run: QueryRun): Boolean =
    run.successor.isDefined && {
      val next = run.id.generation + 1
      val (hasTaken, isFollowed) =
        runtime.reads.both(owners.hasTakenOver(next), owners.isTaken(next + 1))
      !hasTaken && !isFollowed
    }

  /** Stops the query of a run that has a successor. Returns when Spark has begun to stop it. */
  def stop(run: QueryRun): Unit = run.successor.foreach { successor =>
    logger.info(s"Run ${run.id.runId} of ${archive.location} hands over to $successor")
    runtime.stopQuery(run.id.runId)
  }

  /**
   * To be called before a write that plans an epoch. A run with a successor is stopped first, since
   * Spark would regard the exception as a failure otherwise.
   *
   * @throws HandedOver
   *   if the run has a successor
   */
  def refuseNext(run: QueryRun): Unit = run.successor.foreach { successor =>
    stop(run)
    throw new HandedOver(archive.location, successor.toString)
  }
}

private object Handover {

  /** Time between two requests for the end marker. */
  private val PollMs = 25L
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}

/**
 * A run plans no epoch because it hands over. Spark regards this as the effect of `stop()`: by its
 * type, and by the name of its cause in the traceback of a Python function.
 */
final private[cleancut] class HandedOver(location: String, successor: String)
    extends InterruptedIOException(s"$location is handed over to $successor") {
  initCause(new InterruptedException)
}
