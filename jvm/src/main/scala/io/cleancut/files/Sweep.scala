package io.cleancut.files

import java.util.concurrent.TimeUnit.DAYS

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.cleancut.Clock
import io.cleancut.objects.{ObjectStore, WriteProbe}

/**
 * Drops what processes that were killed have left below a checkpoint location and nobody will ever
 * read: uploads in parts that were never completed, which most stores keep and bill for good, and
 * the objects of a probe that came to no end. It takes two requests where there is nothing to drop.
 *
 * A store that does not list uploads, or gives no right to, is no reason not to start a query.
 */
final private[cleancut] class Sweep(store: ObjectStore, clock: Clock) extends Logging {
  import Sweep._

  def run(): Unit = {
    val beforeMs = clock.wallMs() - MinAgeMs
    dropped("unfinished objects")(store.dropUnfinished(beforeMs))
    dropped("objects of write probes")(WriteProbe.dropLeftBehind(store, beforeMs))
  }

  private def dropped(what: String)(drop: => Int): Unit =
    try {
      val count = drop
      if (count > 0) logInfo(s"Dropped $count $what that crashes have left in ${store.location}")
    } catch {
      case NonFatal(e) =>
        logWarning(s"Could not look for $what that crashes have left in ${store.location}", e)
    }
}

private[files] object Sweep {

  /**
   * Nothing that lives is that old: a request is repeated for an hour at most, and no upload here
   * has more than a few requests one behind the other. The rest is for clocks that differ.
   */
  val MinAgeMs: Long = DAYS.toMillis(1)
}
