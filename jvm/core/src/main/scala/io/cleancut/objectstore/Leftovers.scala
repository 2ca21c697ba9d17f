package io.cleancut.objectstore

import java.util.concurrent.TimeUnit.DAYS
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import io.cleancut.base.Clock

/**
 * Deletes the remains of killed processes below a location: uploads in parts that were never
 * completed, which most stores keep and bill permanently, and objects of unfinished probes. Makes
 * two requests if there is nothing to delete.
 *
 * A store without support or permission to list uploads does not prevent a query from running.
 */
final class Leftovers(store: ObjectStore, clock: Clock) {
  import Leftovers._

  private val nextMs = new AtomicLong(clock.wallMs() + MinAgeMs)

  /**
   * @param isOver
   *   whether the rest of the search is omitted, because the run that it belongs to has ended
   */
  def run(isOver: => Boolean = false): Unit = {
    val beforeMs = clock.wallMs() - MinAgeMs
    if (!isOver) dropped("unfinished objects")(store.dropUnfinished(beforeMs))
    if (!isOver) dropped("objects of write probes")(WriteProbe.dropLeftBehind(store, beforeMs))
  }

  /** The same once a day, for queries that run for months. */
  def runIfDue(): Unit = {
    val due = nextMs.get
    val nowMs = clock.wallMs()
    if (nowMs >= due && nextMs.compareAndSet(due, nowMs + MinAgeMs)) run()
  }

  private def dropped(what: String)(drop: => Int): Unit =
    try {
      val count = drop
      if (count > 0)
        logger.info(s"Dropped $count $what of crashed processes in ${store.location}")
    } catch {
      case NonFatal(e) =>
        val place = store.location
        logger.warn(s"Could not search $place for $what of crashed processes", e)
    }
}

object Leftovers {
  private val logger = LoggerFactory.getLogger(classOf[Leftovers])

  /**
   * Age beyond which no active writer exists: a request is retried for at most one hour, and an
   * upload makes few consecutive requests. The rest is a margin for clock differences.
   */
  val MinAgeMs: Long = DAYS.toMillis(1)
}
