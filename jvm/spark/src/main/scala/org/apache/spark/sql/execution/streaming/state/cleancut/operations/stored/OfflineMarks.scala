package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import io.cleancut.protocol.OffsetEntry

/** The marks of an offline epoch in its entry of the offset log. */
private[operations] object OfflineMarks {

  def isOne(offsets: EpochLogs.Offsets): Boolean = markIn(offsets, OffsetEntry.Act).isDefined

  /** The epoch whose state this epoch has, if it is that of an operation. */
  def sourceOf(offsets: EpochLogs.Offsets): Option[Long] =
    markIn(offsets, OffsetEntry.SourceOfAct).map(_.toLong)

  /** The last epoch before a rollback, if it is the epoch of one. */
  def rolledBackFrom(offsets: EpochLogs.Offsets): Option[Long] =
    markIn(offsets, OffsetEntry.LastBeforeAct).map(_.toLong)

  private def markIn(offsets: EpochLogs.Offsets, mark: String): Option[String] =
    EpochLogs.recorded(offsets).flatMap(_.conf.get(mark))
}
