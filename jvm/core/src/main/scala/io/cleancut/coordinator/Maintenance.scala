package io.cleancut.coordinator

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

import io.cleancut.error.Errors

/**
 * What the driver does of a query beside its epochs: it writes pages, and sweeps what nobody needs.
 * Counts how often each of these fails in a row, and has them wait while epochs are late. What
 * executors do beside tasks (bases, compaction) is not in it.
 *
 * @param location
 *   of the query
 * @param asked
 *   what holds now
 */
final class Maintenance(location: String, asked: () => Pace) {
  import Maintenance._

  // All guarded by this.
  private var inRow = Map.empty[String, Failures]
  private var putOff = 0

  def status: Status = synchronized(Status(inRow, putOff))

  /** A run begins. */
  def begins(): Unit = synchronized {
    inRow = Map.empty
    putOff = 0
  }

  /**
   * Does some of it. None where it has failed, which fails nobody now. An error that ends the
   * thread counts as a failure too.
   */
  def run[A](what: String)(act: => A): Option[A] =
    try {
      val done = act
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
          s"The $what of $location is put off, for the ${ordinal(failed)} time in a row",
          e
        )
        if (!NonFatal(e)) throw e
        None
    }

  /**
   * Whether what is due behind an epoch is to wait for a later one.
   *
   * @param isLate
   *   whether that epoch has taken longer than others
   */
  def waits(isLate: Boolean): Boolean = synchronized {
    val isToWait = asked().autopause && isLate && putOff < MostPutOff
    putOff = if (isToWait) putOff + 1 else 0
    isToWait
  }

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_MAINTENANCE_FAILED, more of it has failed in a row than may
   */
  def check(): Unit = for {
    tolerable <- asked().tolerableFailures
    (what, failures) <- synchronized(inRow) if failures.count > tolerable
  } throw Errors.maintenanceFailed(location, what, failures.count, tolerable, failures.last)
}

object Maintenance {
  private val logger = LoggerFactory.getLogger(classOf[Maintenance])

  val Pages = "writing of pages"
  val Sweep = "sweep"

  /** Chains that no page has make cuts longer, so that pages cannot wait for ever. */
  private[coordinator] val MostPutOff = 8

  /** @param last what the last of them was */
  final case class Failures(count: Int, last: String)

  /**
   * @param inRow
   *   of what has failed and has not been done since
   * @param putOff
   *   behind how many epochs in a row it has waited, up to the last
   */
  final case class Status(inRow: Map[String, Failures], putOff: Int)

  /** That of a query that nobody asks for anything. */
  def unasked(location: String): Maintenance = new Maintenance(location, () => Pace.Free)

  private def ordinal(count: Int) = count match {
    case 1 => "1st"
    case 2 => "2nd"
    case 3 => "3rd"
    case n => s"${n}th"
  }
}

/**
 * How fast the epochs of a query may follow each other, beside what its trigger says.
 *
 * @param minPauseMs
 *   between the commit of an epoch and the next one
 * @param intervalMs
 *   between two beginnings
 * @param dollarsPerDay
 *   what requests may cost; None for whatever they do
 * @param tolerableFailures
 *   how often [[Maintenance]] may fail in a row before the query does; None for however often
 * @param autopause
 *   whether that waits while epochs are late
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
