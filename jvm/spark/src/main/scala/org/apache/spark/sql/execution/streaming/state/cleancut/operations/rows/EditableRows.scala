package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  CreateNamedStruct,
  Expression,
  GetStructField,
  Literal,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.functions.{col, count, exists, size}
import org.apache.spark.sql.types.{ArrayType, DataType, StringType, StructType}

/**
 * Rows of a query's state in the form in which they are shown and replaced, and their stored
 * entries. One column family has the rows. Others, such as counts and indexes, are derived from the
 * rows, so that all families agree after any change.
 */
private[operations] trait EditableRows extends Serializable {
  import EditableRows._

  def operator: StoredOperator

  /** The family of the rows, and the families derived from them. */
  def families: Seq[FamilyAt]

  /** Has the columns `key` and `value` first. */
  def schema: StructType

  /** The shown rows of one key of the first family. */
  def displayed(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow]

  /** Groups rows that are stored together into one row. */
  def grouped(rows: DataFrame): DataFrame = rows

  /** The entries to store for a row of `grouped`; the function is for one task. */
  def entries(): InternalRow => Seq[(FamilyAt, Entry)]

  /** The same rows, refined by facts that only the stored rows show. */
  def refine(
      stored: FamilyAt => RDD[(UnsafeRow, Seq[UnsafeRow])],
      refused: String => Nothing
  ): EditableRows = this

  /** Whether no state can contain a row. */
  protected def isNone: Column = col(Key).isNull || col(Value).isNull

  /** Refuses rows that no state can contain. */
  final def checkRows(rows: DataFrame, query: StoredQuery, refused: String => Nothing): Unit = {
    if (!rows.where(isNone).isEmpty) refused("a row has no key, or no value")
    checkOthers(rows, query, refused)
  }

  /** Further checks of rows that have a key and a value. */
  protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit

  def first: StoredFamily = operator.familyAt(families.head)

  /** The column families in the query, by name. */
  def places: Seq[StateRows] = families.map { at =>
    StateRows(operator.id, operator.stores(at.store).name, operator.familyAt(at).name)
  }

  /** Refuses rows with another schema; nullability is ignored. */
  def check(rows: DataFrame, refused: String => Nothing): Unit = {
    val actual = rows.schema
    val isAlike = actual.fieldNames.toSeq == schema.fieldNames.toSeq &&
      DataType.equalsIgnoreNullability(actual, schema)
    if (!isAlike) {
      refused(
        s"the rows must have the columns ${schema.toDDL}, and have ${actual.toDDL}; Spark would " +
          "refuse the query with other columns in its state"
      )
    }
  }

  /**
   * The same rows with their keys as Spark looks them up. Spark compares keys as bytes, so it
   * normalizes floating-point numbers of the keys that it groups and joins by: -0.0 is 0.0, and
   * there is one NaN. A key that is not normalized is never found.
   */
  final def normalized(rows: DataFrame): DataFrame =
    if (!operator.normalizesKeys) rows
    else {
      val plan = rows.asInstanceOf[Dataset[_]].logicalPlan
      val columns = plan.output.map { column =>
        val expression = column.name match {
          case Key   => NormalizeFloatingNumbers.normalize(column)
          case Value => withNormalizedKeys(column)
          case _     => column
        }
        if (expression eq column) column else Alias(expression, column.name)()
      }
      Dataset.ofRows(rows.sparkSession.asInstanceOf[SparkSession], Project(columns, plan))
    }

  /** A value that repeats the key columns, which Spark reads back as the columns of the group. */
  private def withNormalizedKeys(value: Expression): Expression = value.dataType match {
    case row: StructType if operator.repeatsKeys =>
      val keys = first.schema.keySchema.length
      CreateNamedStruct(row.fields.toSeq.zipWithIndex.flatMap { case (field, at) =>
        val column = GetStructField(value, at)
        Seq(
          Literal(field.name),
          if (at < keys) NormalizeFloatingNumbers.normalize(column) else column
        )
      })
    case _ => value
  }

  protected def checkOnce(rows: DataFrame, refused: String => Nothing): Unit =
    if (first.schema.keySchema.nonEmpty) {
      // A grouping normalizes keys. Texts differ where keys of the state may differ.
      val keys = if (operator.normalizesKeys) Seq(Key) else Seq(Key, TextOfKey)
      val twice = rows
        .select(col(Key), col(Key).cast(StringType).as(TextOfKey))
        .groupBy(keys.map(col): _*)
        .agg(count(Key).as("count"))
        .where(col("count") > 1)
        .select(Key, "count")
        .take(1)
      twice.foreach(row => refused(s"the rows have the key ${row.get(0)} ${row.get(1)} times"))
    }

  /** The family in the same store that Spark names after another one, if it exists. */
  protected def namedAfter(at: FamilyAt, name: String => String): Option[FamilyAt] = {
    val related = name(operator.familyAt(at).name)
    Some(operator.stores(at.store).families.indexWhere(_.name == related))
      .filter(_ >= 0)
      .map(FamilyAt(at.store, _))
  }
}

private[operations] object EditableRows {
  val Key = "key"
  val Value = "value"
  private val TextOfKey = "text"

  /** The rows in Spark's internal format. */
  def internal(rows: DataFrame): RDD[InternalRow] =
    rows.asInstanceOf[Dataset[_]].queryExecution.toRdd

  def columns(key: StructType, value: DataType): StructType = new StructType()
    .add(Key, key, nullable = false)
    .add(Value, value, nullable = false)

  /** Creates copied rows from their fields. */
  def projection(schema: StructType): Seq[Any] => UnsafeRow = {
    // All fields are nullable here, because nulls must not be read as values.
    val project = UnsafeProjection.create(schema.asNullable)
    fields => project(InternalRow.fromSeq(fields)).copy()
  }

  def structs(row: InternalRow, at: Int, width: Int): Seq[UnsafeRow] = {
    val list = row.getArray(at)
    (0 until list.numElements()).map(index => unsafe(list.getStruct(index, width)))
  }

  def unsafe(row: InternalRow): UnsafeRow = row.asInstanceOf[UnsafeRow].copy()
}

/** Rows of a family with one value for each key. */
final private[operations] case class SingleRows(operator: StoredOperator, family: FamilyAt)
    extends EditableRows {
  import EditableRows._

  override def families: Seq[FamilyAt] = Seq(family)

  override def schema: StructType = columns(first.schema.keySchema, first.schema.valueSchema)

  override def displayed(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] =
    Iterator(InternalRow(key, values.head))

  override def entries(): InternalRow => Seq[(FamilyAt, Entry)] = {
    val (key, value) = (first.schema.keySchema.length, first.schema.valueSchema.length)
    row => {
      val values = Seq(unsafe(row.getStruct(1, value)))
      Seq(family -> Entry(unsafe(row.getStruct(0, key)), values))
    }
  }

  override protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = checkOnce(rows, refused)
}

/** Rows of a list state variable: all values of a key, in their order. */
final private[operations] case class ListRows(operator: StoredOperator, family: FamilyAt)
    extends EditableRows {
  import EditableRows._

  // Spark counts the values of a list for its metrics.
  private def counts =
    namedAfter(family, TransformWithStateVariableUtils.getRowCounterCFName)

  override def families: Seq[FamilyAt] = family +: counts.toSeq

  override def schema: StructType = columns(
    first.schema.keySchema,
    ArrayType(first.schema.valueSchema, containsNull = false)
  )

  override def displayed(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] =
    Iterator(InternalRow(key, new GenericArrayData(values.toArray[Any])))

  override def entries(): InternalRow => Seq[(FamilyAt, Entry)] = {
    val (key, value) = (first.schema.keySchema.length, first.schema.valueSchema.length)
    val counted = counts.map(at => at -> projection(operator.familyAt(at).schema.valueSchema))
    row => {
      val entry = Entry(unsafe(row.getStruct(0, key)), structs(row, 1, value))
      (family -> entry) +: counted.toSeq.map { case (at, count) =>
        at -> Entry(entry.key, Seq(count(Seq(entry.values.size.toLong))))
      }
    }
  }

  override protected def isNone: Column =
    super.isNone || size(col(Value)) === 0 || exists(col(Value), _.isNull)

  override protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = checkOnce(rows, refused)
}
