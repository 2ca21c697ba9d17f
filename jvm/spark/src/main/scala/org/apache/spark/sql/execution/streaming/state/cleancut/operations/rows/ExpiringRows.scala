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
 * Rows of a state variable with a time to live, each with the moment of its expiry, to the
 * millisecond. Spark finds those that have expired in an index by that moment, from the time of the
 * epoch before on.
 */
sealed private[operations] trait Expiring extends EditableRows {
  import EditableRows._
  import Expiring._

  protected def family: FamilyAt

  protected def keyWidth: Int = first.schema.keySchema.length

  /** The value as the processor has it, and beside it, when it expires. */
  protected def valueSchema: StructType = first.schema.valueSchema.head.dataType match {
    case own: StructType => own
    case other           => throw new IllegalStateException(s"values with an expiry in $other")
  }

  protected def index: FamilyAt = own(FamilyName.Expiry + _)

  protected def own(name: String => String): FamilyAt = namedAfter(family, name).getOrElse {
    throw new IllegalStateException(s"$family of operator ${operator.id} has no index")
  }

  /** Of the value as it is stored. */
  protected def expiryOf(value: UnsafeRow): Long =
    DateTimeUtils.millisToMicros(value.getLong(Ordinal))

  protected def storedValue(): (InternalRow, Long) => UnsafeRow = {
    val project = projection(first.schema.valueSchema)
    (value, expiryUs) => project(Seq(value, DateTimeUtils.microsToMillis(expiryUs)))
  }

  /** That a key expires at a moment, in milliseconds. */
  protected def indexEntry(): (Long, UnsafeRow) => Entry = {
    val schema = operator.familyAt(index).schema
    val (key, empty) = (projection(schema.keySchema), projection(schema.valueSchema)(Seq(null)))
    (expiryMs, of) => Entry(key(Seq(expiryMs, of)), Seq(empty))
  }

  /** Whether a row expires at or before a moment. */
  protected def isOver(moment: Column): Column

  override protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = {
    checkOnce(rows, refused)
    val last = Instant.ofEpochMilli(query.recorded.batchTimestampMs)
    // Less than a millisecond after it is stored as the same moment.
    if (!rows.where(isOver(lit(last.plusNanos(999999)))).isEmpty) {
      refused(
        s"a row expires at $last or before, the time of the last epoch, and Spark does not look " +
          "for such any more; leave it out"
      )
    }
  }
}

private[operations] object Expiring {
  val Expiry = "expiry"

  /** Of the expiry, beside the value. */
  val Ordinal = 1
}

/** Those with one value for each key: of a single value, and of a map. */
final private[operations] case class ExpiringRows(operator: StoredOperator, family: FamilyAt)
    extends Expiring {
  import EditableRows._
  import Expiring._

  override def families: Seq[FamilyAt] = Seq(family, index)

  override def schema: StructType =
    columns(first.schema.keySchema, valueSchema).add(Expiry, TimestampType, nullable = false)

  override def shown(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] = {
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
 * Those of a list, whose elements expire one by one. Spark keeps of each key the first moment that
 * one of them does, and how many there are.
 */
final private[operations] case class ExpiringLists(operator: StoredOperator, family: FamilyAt)
    extends Expiring {
  import EditableRows._
  import Expiring._

  private def minimum = own(FamilyName.FirstExpiry + _)
  private def counts = own(FamilyName.Count + _)

  override def families: Seq[FamilyAt] = Seq(family, index, minimum, counts)

  private def elementSchema = new StructType()
    .add(Value, valueSchema, nullable = false)
    .add(Expiry, TimestampType, nullable = false)

  override def schema: StructType =
    columns(first.schema.keySchema, ArrayType(elementSchema, containsNull = false))

  override def shown(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] = {
    val width = valueSchema.length
    val elements = values.map(of => InternalRow(of.getStruct(0, width), expiryOf(of)))
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
        .map(of => stored(of.getStruct(0, width), of.getLong(1)))
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
    anyElement(of => of.isNull || of.getField(Value).isNull || of.getField(Expiry).isNull)

  override protected def isOver(moment: Column): Column =
    anyElement(_.getField(Expiry) <= moment)
}
