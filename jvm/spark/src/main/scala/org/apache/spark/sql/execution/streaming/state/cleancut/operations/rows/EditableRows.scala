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
 * Rows of a query's state as they are shown and put back, and what is stored for them. One family
 * has the rows. Others, counts and indexes, are made of the rows, so that all agree whatever was
 * changed.
 */
private[operations] trait EditableRows extends Serializable {
  import EditableRows._

  def operator: StoredOperator

  /** That of the rows, and those which are made of them. */
  def families: Seq[FamilyAt]

  /** With the columns `key` and `value` first. */
  def schema: StructType

  /** What is shown of one key of the first family. */
  def shown(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow]

  /** All rows that are stored together as one. */
  def grouped(rows: DataFrame): DataFrame = rows

  /** What is stored for a row of `grouped`; what is given is for one task. */
  def entries(): InternalRow => Seq[(FamilyAt, Entry)]

  /** With what only the rows tell that are stored. */
  def knowing(
      stored: FamilyAt => RDD[(UnsafeRow, Seq[UnsafeRow])],
      refused: String => Nothing
  ): EditableRows = this

  /** Whether a row cannot be in any state. */
  protected def isNone: Column = col(Key).isNull || col(Value).isNull

  /** Refuses what no state can hold. */
  final def checkRows(rows: DataFrame, query: StoredQuery, refused: String => Nothing): Unit = {
    if (!rows.where(isNone).isEmpty) refused("a row has no key, or no value")
    checkOthers(rows, query, refused)
  }

  /** Likewise, of rows that are whole. */
  protected def checkOthers(
      rows: DataFrame,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit

  def first: StoredFamily = operator.familyAt(families.head)

  /** In the query, by their names. */
  def places: Seq[StateRows] = families.map { at =>
    StateRows(operator.id, operator.stores(at.store).name, operator.familyAt(at).name)
  }

  /** Refuses others than rows of this kind; nullability aside. */
  def check(rows: DataFrame, refused: String => Nothing): Unit = {
    val found = rows.schema
    val isAlike = found.fieldNames.toSeq == schema.fieldNames.toSeq &&
      DataType.equalsIgnoreNullability(found, schema)
    if (!isAlike) {
      refused(
        s"the rows are to have the columns ${schema.toDDL}, and have ${found.toDDL}; Spark would " +
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
      // A grouping normalizes keys. Their texts are different where those of the state may be.
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

  /** The family that Spark names after another one, in the same store, if it has that. */
  protected def namedAfter(at: FamilyAt, name: String => String): Option[FamilyAt] = {
    val found = name(operator.familyAt(at).name)
    Some(operator.stores(at.store).families.indexWhere(_.name == found))
      .filter(_ >= 0)
      .map(FamilyAt(at.store, _))
  }
}

private[operations] object EditableRows {
  val Key = "key"
  val Value = "value"
  private val TextOfKey = "text"

  /** The rows as they are stored. */
  def internal(rows: DataFrame): RDD[InternalRow] =
    rows.asInstanceOf[Dataset[_]].queryExecution.toRdd

  def columns(key: StructType, value: DataType): StructType = new StructType()
    .add(Key, key, nullable = false)
    .add(Value, value, nullable = false)

  /** Makes rows of their fields, each a copy. */
  def projection(schema: StructType): Seq[Any] => UnsafeRow = {
    // Whatever is said of nulls: those that are there must not be read as values.
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

  override def shown(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] =
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

/** Rows of a state variable that is a list: all values of a key, in their order. */
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

  override def shown(key: UnsafeRow, values: Seq[UnsafeRow]): Iterator[InternalRow] =
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
