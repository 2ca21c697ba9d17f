package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import io.cleancut.error.Errors
import io.cleancut.sequence.{KeyProgress, SequencedRows}

/** A column of integers. */
final private[sequence] case class NumberColumn(place: Int, dataType: DataType) {
  def isNull(row: InternalRow): Boolean = row.isNullAt(place)

  def apply(row: InternalRow): Long = dataType match {
    case LongType    => row.getLong(place)
    case IntegerType => row.getInt(place).toLong
    case ShortType   => row.getShort(place).toLong
    case _           => row.getByte(place).toLong
  }
}

private[sequence] object NumberColumn {
  val types: Set[DataType] = Set(LongType, IntegerType, ShortType, ByteType)
}

/**
 * The columns that are read from the rows of a query.
 *
 * @param previous
 *   None for consecutive numbers
 * @param eventTime
 *   index of a timestamp column; None for the time of the epoch
 */
final private[sequence] case class SequenceColumns(
    number: NumberColumn,
    previous: Option[NumberColumn],
    eventTime: Option[Int]
) {

  /**
   * @param nowMs
   *   time of the epoch, for rows without a time
   */
  def read(nowMs: Long, key: () => String): SequencedRows[InternalRow] =
    new SequencedRows[InternalRow] {
      override def number(row: InternalRow): Long = {
        if (columns.number.isNull(row))
          throw Errors.sequenceBroken(key(), "null", "it has no number")
        val value = columns.number(row)
        // The two lowest numbers represent missing values.
        if (value < Lowest) throw Errors.sequenceBroken(key(), value.toString, "it is too low")
        value
      }

      override def previous(row: InternalRow): Long = columns.previous match {
        case None                               => columns.number(row) - 1
        case Some(column) if column.isNull(row) => KeyProgress.None
        case Some(column)                       => column(row)
      }

      override def since(row: InternalRow): Long = columns.eventTime match {
        case Some(place) if !row.isNullAt(place) => Math.floorDiv(row.getLong(place), 1000L)
        case _                                   => nowMs
      }
    }

  private def columns: SequenceColumns = this
  private val Lowest = Long.MinValue + 2
}
