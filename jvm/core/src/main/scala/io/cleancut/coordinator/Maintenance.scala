package io.cleancut.coordinator

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import io.cleancut.error.Errors

/**
 * Background work of the driver for one query: it writes pages and collects garbage. Counts
 * consecutive failures of each kind, and postpones work while epochs are late. Background work of
 * executors (snapshots, compaction) is not included.
 *
 * @param location
 *   checkpoint location of the query
 * @param currentPace
 *   the limits that apply now
 */
final class Maintenance(location: String, currentPace: () => Pace) {
  import Maintenance._

  // All guarded by this.
  private var inRow = Map.empty[String, Failures]
  private var putOff = 0

  def status: Status = synchronized(Status(inRow, putOff))

  /** A run begins. */
  def startRun(): Unit = synchronized {
    inRow = Map.empty
    putOff = 0
  }

  /**
   * Runs one piece of work. None if it failed; a failure does not fail the query here. An error
   * that ends the thread counts as a failure.
   */
  def run[A](what: String)(work: => A): Option[A] =
    try {
      val done = work
      synchronized(inRow -= what)
      Some(done)
    } catch {
      case e: Throwable =>
        val failed = synchronized {
          val count = inRow.get(what).fold(0)(_.count) + 1
          inRow += what -> Failures(count, e.toString)
          count
        }
        logger.warn(
          s"The $what of $location failed for the ${ordinal(failed)} time in a row. It is " +
            "postponed",
          e
        )
        if (!NonFatal(e)) throw e
        None
    }

  /**
   * Whether the work that is due after an epoch waits for a later epoch.
   *
   * @param isLate
   *   whether the epoch took longer than usual
   */
  def waits(isLate: Boolean): Boolean = synchronized {
    val isPostponed = currentPace().autopause && isLate && putOff < MostPutOff
    putOff = if (isPostponed) putOff + 1 else 0
    isPostponed
  }

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_MAINTENANCE_FAILED if too many consecutive attempts failed
   */
  def check(): Unit = for {
    tolerable <- currentPace().tolerableFailures
    (what, failures) <- synchronized(inRow) if failures.count > tolerable
  } throw Errors.maintenanceFailed(location, what, failures.count, tolerable, failures.last)
}

object Maintenance {
  private val logger = LoggerFactory.getLogger(classOf[Maintenance])

  val Pages = "writing of pages"
  val Sweep = "sweep"

  /**
   * Largest number of consecutive epochs that postpone work. Chains that are in no page make cuts
   * longer.
   */
  private[coordinator] val MostPutOff = 8

  /**
   * @param last
   *   description of the last failure
   */
  final case class Failures(count: Int, last: String)

  /**
   * @param inRow
   *   consecutive failures, by kind of work
   * @param putOff
   *   number of consecutive epochs, up to the last, that postponed work
   */
  final case class Status(inRow: Map[String, Failures], putOff: Int)

  /** Maintenance without limits. */
  def unlimited(location: String): Maintenance = new Maintenance(location, () => Pace.Free)

  private def ordinal(count: Int) = count match {
    case 1 => "1st"
    case 2 => "2nd"
    case 3 => "3rd"
    case n => s"${n}th"
  }
}

/**
 * Limits on how fast epochs follow each other, in addition to the trigger.
 *
 * @param minPauseMs
 *   time between the commit of an epoch and the next one
 * @param intervalMs
 *   time between the starts of two epochs
 * @param dollarsPerDay
 *   budget of requests; None for no limit
 * @param tolerableFailures
 *   consecutive failures of [[Maintenance]] before the query fails; None for no limit
 * @param autopause
 *   whether maintenance is postponed while epochs are late
 */
final case class Pace(
    minPauseMs: Long,
    intervalMs: Long,
    dollarsPerDay: Option[Double],
    tolerableFailures: Option[Int] = None,
    autopause: Boolean = false
)

object Pace {
  val Free: Pace = Pace(0L, 0L, None)
}
