package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

/** The state from which an operation makes its epoch. */
sealed trait OfflineSource

object OfflineSource {

  /** The state after the last epoch. */
  case object Last extends OfflineSource

  /** The state after an epoch to which a rollback is possible. */
  final case class Epoch(number: Long) extends OfflineSource

  /** The state that a savepoint keeps. */
  final case class Savepoint(name: String) extends OfflineSource

  /**
   * The state after the last epoch that was committed by a time.
   *
   * @param wallMs
   *   milliseconds since 1970-01-01 UTC
   */
  final case class Time(wallMs: Long) extends OfflineSource

  /** The state before the last rollback. */
  case object BeforeRollback extends OfflineSource
}
