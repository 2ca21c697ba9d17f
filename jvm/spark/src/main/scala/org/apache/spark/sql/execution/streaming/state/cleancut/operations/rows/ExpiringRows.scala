package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import java.time.Instant

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, GenericArrayData}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyAt,
  FamilyName,
  StoredOperator,
  StoredQuery
}
import org.apache.spark.sql.functions.{col, exists, lit, size}
import org.apache.spark.sql.types.{ArrayType, StructType, TimestampType}

/**
 * Rows of a state variable with a time to live, each with its expiry time in milliseconds. Spark
 * finds expired rows in an index by expiry time, beginning at the time of the previous epoch.
 */
sealed private[operations] trait Expiring extends EditableRows {
  import EditableRows._
  import Expiring._

  protected def family: FamilyAt

  protected def keyWidth: Int = first.schema.keySchema.length

  /** The value that the processor uses; the expiry time is stored next to it. */
  protected def valueSchema: StructType = first.schema.valueSchema.head.dataType match {
    case struct: StructType => struct
    case other              => throw new IllegalStateException(s"values with an expiry in $other")
  }

  protected def index: FamilyAt = namedFamily(FamilyName.Expiry + _)

  protected def namedFamily(name: String => String): FamilyAt = namedAfter(family, name).getOrElse {
    throw new IllegalStateException(s"$family of operator ${operator.id} has no index")
  }

  /** Expiry time of a stored value. */
  protected def expiryOf(value: UnsafeRow): Long =
    DateTimeUtils.millisToMicros(value.getLong(Ordinal))

  protected def storedValue(): (InternalRow, Long) => UnsafeRow = {
    val project = projection(first.schema.valueSchema)
    (value, expiryUs) => project(Seq(value, DateTimeUtils.microsToMillis(expiryUs)))
  }

  /** The index entry of a key and its expiry time in milliseconds. */
  protected def indexEntry(): (Long, UnsafeRow) => Entry = {
    val schema = operator.familyAt(index).schema
    val (key, empty) = (projection(schema.keySchema), projection(schema.valueSchema)(Seq(null)))
    (expiryMs, grouping) => Entry(key(Seq(expiryMs, grouping)), Seq(empty))
  }

  /** Whether a row expires at or before a time. */
  protected def isOver(moment: Column): Column

  override protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = {
    checkOnce(rows, refused)
    val last = Instant.ofEpochMilli(query.recorded.batchTimestampMs)
    // Times that differ by less than a millisecond are stored as the same time.
    if (!rows.where(isOver(lit(last.plusNanos(999999)))).isEmpty) {
      refused(
        s"a row expires at $last or before, the time of the last epoch, and Spark does not scan " +
          "for such rows again; remove the row"
      )
    }
  }
}

private[operations] object Expiring {
  val Expiry = "expiry"

  /** Column of the expiry time. */
  val Ordinal = 1
}

/** Rows with one value for each key: of a value state or a map state. */
final private[operations] case class ExpiringRows(operator: StoredOperator, family: FamilyAt)
    extends Expiring {
  import EditableRows._
  import Expiring._

  override def families: Seq[FamilyAt] = Seq(family, index)

  override def schema: StructType =
    columns(first.schema.keySchema, valueSchema).add(Expiry, TimestampType, nullable = false)

  override def displayed(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] = {
    val value = values.head
    Iterator(InternalRow(key, value.getStruct(0, valueSchema.length), expiryOf(value)))
  }

  override def entries(): InternalRow => Seq[(FamilyAt, Entry)] = {
    val (width, keys) = (valueSchema.length, keyWidth)
    val (stored, indexed, at) = (storedValue(), indexEntry(), index)
    row => {
      val key = unsafe(row.getStruct(0, keys))
      val value = stored(row.getStruct(1, width), row.getLong(2))
      Seq(family -> Entry(key, Seq(value)), at -> indexed(value.getLong(Ordinal), key))
    }
  }

  override protected def isNone: Column = super.isNone || col(Expiry).isNull

  override protected def isOver(moment: Column): Column = col(Expiry) <= moment
}

/**
 * Rows of a list state, whose elements expire one by one. For each key, Spark stores the first
 * expiry time of its elements and their number.
 */
final private[operations] case class ExpiringLists(operator: StoredOperator, family: FamilyAt)
    extends Expiring {
  import EditableRows._
  import Expiring._

  private def minimum = namedFamily(FamilyName.FirstExpiry + _)
  private def counts = namedFamily(FamilyName.Count + _)

  override def families: Seq[FamilyAt] = Seq(family, index, minimum, counts)

  private def elementSchema = new StructType()
    .add(Value, valueSchema, nullable = false)
    .add(Expiry, TimestampType, nullable = false)

  override def schema: StructType =
    columns(first.schema.keySchema, ArrayType(elementSchema, containsNull = false))

  override def displayed(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] = {
    val width = valueSchema.length
    val elements = values.map(value => InternalRow(value.getStruct(0, width), expiryOf(value)))
    Iterator(InternalRow(key, new GenericArrayData(elements.toArray[Any])))
  }

  override def entries(): InternalRow => Seq[(FamilyAt, Entry)] = {
    val (keys, width) = (keyWidth, valueSchema.length)
    val (stored, indexed) = (storedValue(), indexEntry())
    val (indexAt, minimumAt, countsAt) = (index, minimum, counts)
    val moment = projection(operator.familyAt(minimumAt).schema.valueSchema)
    val count = projection(operator.familyAt(countsAt).schema.valueSchema)
    row => {
      val key = unsafe(row.getStruct(0, keys))
      val values = structs(row, 1, elementSchema.length)
        .map(element => stored(element.getStruct(0, width), element.getLong(1)))
      val firstMs = values.map(_.getLong(Ordinal)).min
      Seq(
        family -> Entry(key, values),
        indexAt -> indexed(firstMs, key),
        minimumAt -> Entry(key, Seq(moment(Seq(firstMs)))),
        countsAt -> Entry(key, Seq(count(Seq(values.size.toLong))))
      )
    }
  }

  private def anyElement(is: Column => Column): Column = exists(col(Value), is)

  override protected def isNone: Column = super.isNone || size(col(Value)) === 0 ||
    anyElement(element =>
      element.isNull || element.getField(Value).isNull || element.getField(Expiry).isNull
    )

  override protected def isOver(moment: Column): Column =
    anyElement(_.getField(Expiry) <= moment)
}
