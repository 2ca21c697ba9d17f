package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyAt,
  StateRows,
  StoredOperator,
  StoredQuery
}
import org.apache.spark.sql.functions.{col, collect_list, struct}
import org.apache.spark.sql.types.{BooleanType, StructType}

/**
 * The rows of one side of a stream-stream join: the join key as `key`, the row as `value`, and from
 * state format 2 on whether it was `matched`. A key may have many rows.
 */
private[operations] trait JoinSide extends EditableRows {
  import EditableRows._
  import JoinSide._

  /** Whether the state records for each row that it was matched. */
  protected def isMatchKept: Boolean = operator.joinFormat.exists(_ > 1)

  // The key is followed by the index of the row, and the row by whether it was matched.
  protected def keySchema: StructType = StructType(first.schema.keySchema.init)
  protected def valueSchema: StructType =
    if (isMatchKept) StructType(first.schema.valueSchema.init) else first.schema.valueSchema

  override def schema: StructType = {
    val columns = EditableRows.columns(keySchema, valueSchema)
    if (isMatchKept) columns.add(Matched, BooleanType, nullable = false) else columns
  }

  override def displayed(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] = {
    val joinKey = InternalRow.fromSeq(key.toSeq(first.schema.keySchema).init)
    values.iterator.map { value =>
      if (!isMatchKept) InternalRow(joinKey, value)
      else {
        val fields = value.toSeq(first.schema.valueSchema)
        InternalRow(joinKey, InternalRow.fromSeq(fields.init), fields.last)
      }
    }
  }

  override protected def isNone: Column =
    if (isMatchKept) super.isNone || col(Matched).isNull else super.isNone

  override def grouped(rows: DataFrame): DataFrame = {
    val columns = schema.fieldNames.tail.map(col(_)).toSeq
    rows.groupBy(col(Key)).agg(collect_list(struct(columns: _*)).as(Rows))
  }

  /** Key and rows in their stored form. */
  protected def keyAndRows(): InternalRow => (UnsafeRow, Seq[UnsafeRow]) = {
    val (keys, width, isKept) = (keySchema.length, valueSchema.length, isMatchKept)
    val (rowSchema, columns) = (valueSchema, schema.length - 1)
    val stored = projection(first.schema.valueSchema)
    row => {
      val values = structs(row, 1, columns).map { struct =>
        val value = struct.getStruct(0, width)
        if (isKept) stored(value.toSeq(rowSchema) :+ struct.getBoolean(1)) else unsafe(value)
      }
      (unsafe(row.getStruct(0, keys)), values)
    }
  }

  /** Creates a key of the first family from the join key and the index of a row. */
  protected def placedKey(): (UnsafeRow, Long) => UnsafeRow = {
    val (joinSchema, project) = (keySchema, projection(first.schema.keySchema))
    (key, place) => project(key.toSeq(joinSchema) :+ place)
  }
}

private[operations] object JoinSide {
  val Matched = "matched"
  private val Rows = "rows"
  private val Sides = Set("left", "right")

  /** None if the rows are not those of a join side. */
  def of(operator: StoredOperator, requested: StateRows): Option[JoinSide] = {
    def at(kind: String, side: String = requested.family) = familyOf(operator, s"$side-$kind")
    Option.when(Sides(requested.family) && requested.store == StateStoreId.DEFAULT_STORE_NAME) {
      if (operator.joinFormat.exists(_ >= TimedFormat)) {
        val rows = at("keyWithTsToValues")
        val other = at("keyWithTsToValues", (Sides - requested.family).head)
        TimedSide(operator, rows, at("tsWithKey"), JoinTimes.of(operator, rows, other))
      } else IndexedSide(operator, at("keyWithIndexToValue"), at("keyToNumValues"))
    }
  }

  // The first format that does not number the rows.
  private val TimedFormat = 4

  /** Up to format 2 the four are stores, and after that families of one store. */
  private def familyOf(operator: StoredOperator, name: String): FamilyAt = {
    val store = operator.stores.indexWhere(_.name == name)
    if (store >= 0) FamilyAt(store, 0)
    else FamilyAt(0, operator.stores.head.families.indexWhere(_.name == name))
  }
}

/** Formats 1 to 3: the rows of a key are numbered from 0, and another family has their count. */
final private[operations] case class IndexedSide(
    operator: StoredOperator,
    rows: FamilyAt,
    counts: FamilyAt
) extends JoinSide {
  import EditableRows._

  override def families: Seq[FamilyAt] = Seq(rows, counts)

  override protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = ()

  override def entries(): InternalRow => Seq[(FamilyAt, Entry)] = {
    val (read, placed) = (keyAndRows(), placedKey())
    val count = projection(operator.familyAt(counts).schema.valueSchema)
    row => {
      val (key, values) = read(row)
      val numbered = values.zipWithIndex.map { case (value, index) =>
        rows -> Entry(placed(key, index.toLong), Seq(value))
      }
      (counts -> Entry(key, Seq(count(Seq(values.size.toLong))))) +: numbered
    }
  }
}

/**
 * Format 4: the rows of a key and a time are one list. If the side has times, an index has an entry
 * for each list, with the time first.
 *
 * @param earliestUs
 *   first time of the stored rows
 */
final private[operations] case class TimedSide(
    operator: StoredOperator,
    rows: FamilyAt,
    index: FamilyAt,
    times: JoinTimes,
    earliestUs: Long = Long.MaxValue
) extends JoinSide {
  import EditableRows._

  override def families: Seq[FamilyAt] = Seq(rows, index)

  override def entries(): InternalRow => Seq[(FamilyAt, Entry)] = {
    val (read, placed) = (keyAndRows(), placedKey())
    val empty = projection(operator.familyAt(index).schema.valueSchema)(Seq(null))
    row => {
      val (key, values) = read(row)
      val byPlace = values.zipWithIndex.groupMap { case (value, number) =>
        times.of(key, value).headOption.getOrElse(JoinTimes.without(number))
      }(_._1)
      byPlace.toSeq.flatMap { case (place, values) =>
        val entry = Entry(placed(key, place), values)
        val indexed =
          Option.when(times.isDefined)(index -> Entry(entry.key, values.map(_ => empty)))
        (rows -> entry) +: indexed.toSeq
      }
    }
  }

  override def refine(
      stored: FamilyAt => RDD[(UnsafeRow, Seq[UnsafeRow])],
      refused: String => Nothing
  ): EditableRows = {
    val (from, placeAt) = (times, keySchema.length)
    val all = stored(rows)
      .map { case (key, values) => from.evidence(key, values, key.getLong(placeAt)) }
    val seen = ExecutorTasks.fold(all)(from.noEvidence)(_.and(_))
    copy(times = times.refine(seen, refused), earliestUs = seen.earliestUs)
  }

  override protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = if (times.isDefined) checkTimes(rows, query, refused)

  /**
   * A checkpoint does not record which field is the time of a row ([[JoinTimes]]). So all candidate
   * fields of a row must agree, and Spark must still be able to evict the row.
   */
  private def checkTimes(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = {
    val (candidates, keys, width) = (times, keySchema.length, valueSchema.length)
    val converted = internal(rows)
      .map(row => candidates.of(row.getStruct(0, keys), row.getStruct(1, width)))
      .map(found => (found.min, found.distinct.size > 1))
    val (earliest, hasConflict) = ExecutorTasks.fold(converted)((Long.MaxValue, false)) { (a, b) =>
      (Math.min(a._1, b._1), a._2 || b._2)
    }
    if (hasConflict) refused("the event time fields of a row differ")
    // The next eviction begins at the previous watermark and does not reach earlier rows.
    val watermarkMs = query.recorded.batchWatermarkMs
    if (earliest < earliestUs && earliest <= DateTimeUtils.millisToMicros(watermarkMs)) {
      val time = DateTimeUtils.microsToInstant(earliest)
      refused(
        s"a row has the time $time, which is not after the watermark, and before all rows of its " +
          "side; Spark would neither join nor remove it"
      )
    }
  }
}
