package io.cleancut.objectstore

import java.util.concurrent.TimeUnit.DAYS
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import io.cleancut.base.Clock

/**
 * Drops what processes that were killed have left below a place and nobody will ever read: uploads
 * in parts that were never completed, which most stores keep and bill for good, and the objects of
 * a probe that came to no end. It takes two requests where there is nothing to drop.
 *
 * A store that does not list uploads, or gives no right to, is no reason not to run a query.
 */
final class Leftovers(store: ObjectStore, clock: Clock) {
  import Leftovers._

  private val nextMs = new AtomicLong(clock.wallMs() + MinAgeMs)

  def run(): Unit = {
    val beforeMs = clock.wallMs() - MinAgeMs
    dropped("unfinished objects")(store.dropUnfinished(beforeMs))
    dropped("objects of write probes")(WriteProbe.dropLeftBehind(store, beforeMs))
  }

  /** The same once a day, for a query that runs for months. */
  def runIfDue(): Unit = {
    val due = nextMs.get
    val nowMs = clock.wallMs()
    if (nowMs >= due && nextMs.compareAndSet(due, nowMs + MinAgeMs)) run()
  }

  private def dropped(what: String)(drop: => Int): Unit =
    try {
      val count = drop
      if (count > 0)
        logger.info(s"Dropped $count $what that crashes have left in ${store.location}")
    } catch {
      case NonFatal(e) =>
        val place = store.location
        logger.warn(s"Could not look for $what that crashes have left in $place", e)
    }
}

object Leftovers {
  private val logger = LoggerFactory.getLogger(classOf[Leftovers])

  /**
   * Nothing that lives is that old: a request is repeated for an hour at most, and no upload here
   * has more than a few requests one behind the other. The rest is for clocks that differ.
   */
  val MinAgeMs: Long = DAYS.toMillis(1)
}
