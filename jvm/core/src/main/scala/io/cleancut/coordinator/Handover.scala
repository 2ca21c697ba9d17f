package io.cleancut.coordinator

import java.io.InterruptedIOException
import java.util.concurrent.TimeUnit

import org.slf4j.LoggerFactory

import io.cleancut.coordinator.state.QueryRun
import io.cleancut.cutstore.{CutArchive, Taken}

/**
 * The handover of a query from a run to its successor (rules T1 to T3): the successor waits until
 * the run has committed its epoch and ended, so that no epoch runs twice and no run fails. It takes
 * the query in any case when its time is over. Holds no lock.
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
    val endNs = clock.monotonicNs() + TimeUnit.MILLISECONDS.toNanos(runtime.handoverMs)
    var hasEnded = owners.hasEnded(before)
    while (!hasEnded && clock.monotonicNs() < endNs) {
      clock.sleep(PollMs, TimeUnit.MILLISECONDS)
      hasEnded = owners.hasEnded(before)
    }
    owners.takeOver(taken.generation)
    if (!hasEnded)
      logger.warn(
        s"Generation $before of ${archive.location} has not ended within ${runtime.handoverMs} " +
          s"ms; generation ${taken.generation} takes the query"
      )
    taken.copy(isAlone = hasEnded)
  }

  /**
   * Whether the next owner, which exists, waits for the end of a run and has not taken the query.
   * The run may then complete its epoch, and must plan no other one. Another owner that is later
   * than the successor ends the run.
   */
  def isAwaited(run: QueryRun): Boolean = {
    val next = run.id.generation + 1
    if (run.successor.isEmpty)
      run.successor = owners.find(next).filter(_.waitsFor.contains(run.id.generation))
    run.successor.isDefined && {
      val (hasTaken, isFollowed) =
        runtime.reads.both(owners.hasTakenOver(next), owners.isTaken(next + 1))
      !hasTaken && !isFollowed
    }
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
  private val PollMs = 100L
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
