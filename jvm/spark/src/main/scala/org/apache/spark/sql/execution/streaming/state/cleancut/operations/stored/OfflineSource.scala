package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

/** Of which of a query's states an act makes its epoch. */
sealed trait OfflineSource

object OfflineSource {

  /** That after the last epoch. */
  case object Last extends OfflineSource

  /** That after an epoch which can still be gone back to. */
  final case class Epoch(number: Long) extends OfflineSource

  /** That which a savepoint keeps. */
  final case class Savepoint(name: String) extends OfflineSource

  /**
   * That after the last epoch which was committed then.
   *
   * @param wallMs
   *   since 1970, in UTC
   */
  final case class Time(wallMs: Long) extends OfflineSource

  /** That which the last rollback has left behind. */
  case object BeforeRollback extends OfflineSource
}
