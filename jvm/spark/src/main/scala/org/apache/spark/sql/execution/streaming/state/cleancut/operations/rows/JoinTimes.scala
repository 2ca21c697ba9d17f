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
 * Where a join of state format 4 has the time of a row from, by which it is stored and evicted:
 * from a field of what is joined by, if one side has its watermark there; else from the row; else
 * from nowhere. A checkpoint does not say it. Its schemas leave one or several fields, of which the
 * rows that are stored may rule some out. Where several are left they have to agree.
 *
 * @param isSure
 *   whether rows have a time at all, if there is a field that it may come from
 */
final private[operations] case class JoinTimes(fields: Seq[JoinTimes.Field], isSure: Boolean) {
  import JoinTimes._

  /** Whether rows have times. */
  def areThere: Boolean = fields.nonEmpty

  /** What the fields say. */
  def of(key: InternalRow, value: InternalRow): Seq[Long] = fields.map(_.of(key, value))

  /** What rows tell that are stored at a time. */
  def seen(key: UnsafeRow, values: Seq[UnsafeRow], timeUs: Long): Seen =
    Seen(fields.filter(of => values.forall(of.of(key, _) == timeUs)).toSet, timeUs, timeUs)

  def nothing: Seen = Seen(fields.toSet, Long.MaxValue, Long.MinValue)

  /** What is left of it by what was seen of all rows. */
  def knowing(seen: Seen, refused: String => Nothing): JoinTimes = {
    val left = fields.filter(seen.fields)
    if (fields.isEmpty || (left.nonEmpty && (isSure || seen.isAny))) copy(left, isSure = true)
    else if (!isSure && seen.isAny && seen.isWithoutTimes) copy(Nil)
    else {
      refused(
        "neither its schemas nor its rows tell what Spark takes for the time of a row; run an " +
          "epoch with rows of that side first"
      )
    }
  }
}

private[operations] object JoinTimes {

  /**
   * @param isWindow
   *   whose end is the time
   */
  final case class Field(isInKey: Boolean, ordinal: Int, isWindow: Boolean) {
    def of(key: InternalRow, value: InternalRow): Long = {
      val row = if (isInKey) key else value
      if (isWindow) row.getStruct(ordinal, 2).getLong(1) else row.getLong(ordinal)
    }
  }

  /** Which fields had the time of all rows that were looked at, and which times these were. */
  final case class Seen(fields: Set[Field], earliestUs: Long, latestUs: Long) {
    def and(other: Seen): Seen = Seen(
      fields & other.fields,
      Math.min(earliestUs, other.earliestUs),
      Math.max(latestUs, other.latestUs)
    )

    def isAny: Boolean = earliestUs <= latestUs
    def isWithoutTimes: Boolean = earliestUs >= 0 && latestUs < Places
  }

  // Over which Spark spreads the rows of a key that have no time.
  private val Places = 1024

  /** Where a row goes that has no time, by its number among those of its key. */
  def without(number: Int): Long = (number % Places).toLong

  /** By the schemas of a side and of the other one. */
  def of(operator: StoredOperator, side: FamilyAt, other: FamilyAt): JoinTimes = {
    def watermarks(at: FamilyAt) = operator
      .familyAt(at)
      .schema
      .valueSchema
      .zipWithIndex
      .filter(_._1.metadata.contains(EventTimeWatermark.delayKey))
    def field(of: (StructField, Int), isInKey: Boolean) =
      Field(isInKey, of._2, of._1.dataType.isInstanceOf[StructType])
    val own = watermarks(side)
    // Which columns are joined by is not said; those that are have the type of their key.
    val types = (own ++ watermarks(other)).map(_._1.dataType.asNullable).toSet
    val keys = operator
      .familyAt(side)
      .schema
      .keySchema
      .init
      .zipWithIndex
      .filter(of => types(of._1.dataType.asNullable))
    JoinTimes(
      keys.map(field(_, isInKey = true)) ++ own.headOption.map(field(_, isInKey = false)),
      isSure = own.nonEmpty
    )
  }
}
