package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._

import io.cleancut.sequence.{HeldMark, KeyProgress}

/** The progress of a key, as a value of its state; times in milliseconds since 1970. */
private[sequence] object ProgressRow {
  private val Mark = new StructType().add("at_ms", LongType, false).add("highest", LongType, false)

  // Values that exist only during a gap are null otherwise.
  val Schema: StructType = new StructType()
    .add("last", LongType)
    .add("held", IntegerType)
    .add("lowest", LongType)
    .add("awaited", LongType)
    .add("highest", LongType)
    .add("dropped", LongType)
    .add("gaps", LongType)
    .add("timer_ms", LongType)
    .add("marks", ArrayType(Mark, containsNull = false))

  def of(progress: KeyProgress): InternalRow = {
    import progress._
    val isHolding = held > 0
    val values = Array[Any](
      numberOf(last),
      held,
      if (isHolding) lowest else null,
      if (isHolding) numberOf(awaited) else null,
      if (isHolding) highest else null,
      dropped,
      gaps,
      if (timerMs == 0) null else timerMs,
      if (marks.isEmpty) null
      else
        new GenericArrayData(
          marks
            .map(mark => new GenericInternalRow(Array[Any](mark.atMs, mark.highest)))
            .toArray[Any]
        )
    )
    new GenericInternalRow(values)
  }

  def read(row: InternalRow): KeyProgress = {
    def number(place: Int, absent: Long): Long =
      if (row.isNullAt(place)) absent else row.getLong(place)
    new KeyProgress(
      number(0, KeyProgress.None),
      row.getInt(1),
      number(2, 0),
      number(3, KeyProgress.None),
      number(4, 0),
      number(5, 0),
      number(6, 0),
      number(7, 0),
      if (row.isNullAt(8)) Vector.empty
      else {
        val marks = row.getArray(8)
        Vector.tabulate(marks.numElements()) { place =>
          val mark = marks.getStruct(place, Mark.size)
          HeldMark(mark.getLong(0), mark.getLong(1))
        }
      }
    )
  }

  private def numberOf(number: Long): Any = if (number == KeyProgress.None) null else number
}
