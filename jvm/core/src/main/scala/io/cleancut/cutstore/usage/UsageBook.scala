package io.cleancut.cutstore.usage

import scala.collection.mutable

/**
 * The sender of a report.
 *
 * @param executor
 *   Spark's executor ID, or that of the driver if tasks run there
 * @param usage
 *   usage of its process so far, so that lost or duplicate reports are harmless. The coordinator
 *   counts the requests of the driver process itself, so they are not included there
 */
final case class Sender(executor: String, host: String, usage: Usage) {
  def place: Place = Place(executor, host)
}

/** The location of a task attempt. */
final case class Place(executor: String, host: String) {
  override def toString: String = s"executor $executor on $host"
}

object Place {

  /** The writer of the segments that a driver packs. */
  val Driver = "driver"
}

/**
 * The usage of all processes for a query since each of them began, as reported. Pure, as
 * [[EpochLedger]] is.
 */
final class UsageBook {
  private val latest = mutable.Map.empty[String, Usage]

  def recordSender(from: Sender): Unit = {
    latest(from.executor) = latest.get(from.executor).fold(from.usage)(_.max(from.usage))
    ()
  }

  /** @param ofCoordinator usage of the coordinator itself */
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
   *   sum of all executors, including lost ones
   */
  final case class Shares(driver: Usage, executors: Usage, executorCount: Int)
}
