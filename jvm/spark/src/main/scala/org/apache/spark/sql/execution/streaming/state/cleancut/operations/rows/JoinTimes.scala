package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyAt,
  StoredOperator
}
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * The source of a row's time in a join of state format 4, by which the row is stored and evicted.
 * It is a field of the join key, if one side has its watermark there; otherwise a field of the row;
 * otherwise there is none. A checkpoint does not record it. Its schemas leave one or several
 * fields, and the stored rows may exclude some of them. All remaining fields must agree.
 *
 * @param isSure
 *   whether rows certainly have a time, if there is a candidate field
 */
final private[operations] case class JoinTimes(fields: Seq[JoinTimes.Field], isSure: Boolean) {
  import JoinTimes._

  /** Whether rows have times. */
  def isDefined: Boolean = fields.nonEmpty

  /** The values of the candidate fields. */
  def of(key: InternalRow, value: InternalRow): Seq[Long] = fields.map(_.of(key, value))

  /** The fields that agree with rows that are stored at a time. */
  def evidence(key: UnsafeRow, values: Seq[UnsafeRow], timeUs: Long): Seen =
    Seen(fields.filter(field => values.forall(field.of(key, _) == timeUs)).toSet, timeUs, timeUs)

  def noEvidence: Seen = Seen(fields.toSet, Long.MaxValue, Long.MinValue)

  /** The fields that remain after all rows were seen. */
  def refine(seen: Seen, refused: String => Nothing): JoinTimes = {
    val left = fields.filter(seen.fields)
    if (fields.isEmpty || (left.nonEmpty && (isSure || seen.isAny))) copy(left, isSure = true)
    else if (!isSure && seen.isAny && seen.isWithoutTimes) copy(Nil)
    else {
      refused(
        "neither its schemas nor its rows show which field Spark uses as the time of a row; run " +
          "an epoch with rows of that side first"
      )
    }
  }
}

private[operations] object JoinTimes {

  /**
   * @param isWindow
   *   whether the field is a window, whose end is the time
   */
  final case class Field(isInKey: Boolean, ordinal: Int, isWindow: Boolean) {
    def of(key: InternalRow, value: InternalRow): Long = {
      val row = if (isInKey) key else value
      if (isWindow) row.getStruct(ordinal, 2).getLong(1) else row.getLong(ordinal)
    }
  }

  /** The fields that have the time of all rows seen so far, and the range of these times. */
  final case class Seen(fields: Set[Field], earliestUs: Long, latestUs: Long) {
    def and(other: Seen): Seen = Seen(
      fields & other.fields,
      Math.min(earliestUs, other.earliestUs),
      Math.max(latestUs, other.latestUs)
    )

    def isAny: Boolean = earliestUs <= latestUs
    def isWithoutTimes: Boolean = earliestUs >= 0 && latestUs < Places
  }

  // Number of places over which Spark distributes the rows of a key without times.
  private val Places = 1024

  /** The place of a row without time, by its number within its key. */
  def without(number: Int): Long = (number % Places).toLong

  /** By the schemas of a side and of the other side. */
  def of(operator: StoredOperator, side: FamilyAt, other: FamilyAt): JoinTimes = {
    def watermarks(at: FamilyAt) = operator
      .familyAt(at)
      .schema
      .valueSchema
      .zipWithIndex
      .filter(_._1.metadata.contains(EventTimeWatermark.delayKey))
    def field(column: (StructField, Int), isInKey: Boolean) =
      Field(isInKey, column._2, column._1.dataType.isInstanceOf[StructType])
    val sideTimes = watermarks(side)
    // The join columns are not recorded; they have the type of their key.
    val types = (sideTimes ++ watermarks(other)).map(_._1.dataType.asNullable).toSet
    val keys = operator
      .familyAt(side)
      .schema
      .keySchema
      .init
      .zipWithIndex
      .filter(column => types(column._1.dataType.asNullable))
    JoinTimes(
      keys.map(field(_, isInKey = true)) ++ sideTimes.headOption.map(field(_, isInKey = false)),
      isSure = sideTimes.nonEmpty
    )
  }
}
