package io.cleancut.cutstore.usage

import scala.collection.mutable

/**
 * Who reports a frame.
 *
 * @param executor
 *   Spark's id of it, or that of the driver where tasks run there
 * @param usage
 *   of its process so far, so that a report which is lost or comes twice does no harm. What the
 *   driver's own process asks of the store the coordinator sees by itself: there, no requests
 */
final case class Sender(executor: String, host: String, usage: Usage) {
  def place: Place = Place(executor, host)
}

/** Where a task attempt runs. */
final case class Place(executor: String, host: String) {
  override def toString: String = s"executor $executor on $host"
}

object Place {

  /** The writer of the segments that a driver packs. */
  val Driver = "driver"
}

/**
 * What all processes have used for a query since each of them began, as far as they have told.
 * Pure, as [[EpochLedger]] is.
 */
final class UsageBook {
  private val latest = mutable.Map.empty[String, Usage]

  def heard(from: Sender): Unit = {
    latest(from.executor) = latest.get(from.executor).fold(from.usage)(_.max(from.usage))
    ()
  }

  /** @param ofCoordinator what the coordinator itself has used */
  def now(ofCoordinator: Usage): UsageBook.Shares = {
    val (driver, executors) = latest.partition(_._1 == Place.Driver)
    UsageBook.Shares(
      driver.values.foldLeft(ofCoordinator)(_ + _),
      executors.values.foldLeft(Usage.Zero)(_ + _),
      executors.size
    )
  }
}

object UsageBook {

  /**
   * @param executors
   *   all of them together, those that are gone too
   */
  final case class Shares(driver: Usage, executors: Usage, executorCount: Int)
}
