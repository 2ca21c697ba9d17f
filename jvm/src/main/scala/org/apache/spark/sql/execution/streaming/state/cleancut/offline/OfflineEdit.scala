package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.functions.{col, exists, size}
import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

/**
 * Which rows of a query's state are meant.
 *
 * @param operator
 *   Spark's id of it
 * @param family
 *   the column family; `default` where the operator has no others
 */
final case class StateRows(operator: Long, store: String, family: String) {
  override def toString: String = s"operator $operator, store '$store', family '$family'"
}

/**
 * Rows in the place of those that there are, with the columns `key` and `value` as [[StateRows]] of
 * that query have them.
 */
final case class OfflineEdit(of: StateRows, rows: DataFrame)

/** Rows of a query's state that can be read as columns, and put back. */
final private[offline] case class EditableRows(
    operator: StoredOperator,
    store: Int,
    family: Int
) {
  def stored: StoredFamily = operator.stores(store).families(family)

  /** Of a family with lists, a row has all values of a key, in their order. */
  def schema: StructType = {
    val value = stored.schema.valueSchema
    new StructType()
      .add(EditableRows.Key, stored.schema.keySchema, nullable = false)
      .add(
        EditableRows.Value,
        if (stored.holdsLists) ArrayType(value, containsNull = false) else value,
        nullable = false
      )
  }

  /** As they are after the epoch of a query. */
  def frame(
      stores: OfflineStores,
      tasks: Seq[StateRewrite.Task],
      session: SparkSession
  ): DataFrame = {
    val own = tasks.filter(_.operator.id == operator.id)
    val isList = stored.holdsLists
    val rows = session.sparkContext
      .parallelize(own, Math.max(own.size, 1))
      .flatMap(stores.rowsOf(_, store, family))
      .map[InternalRow] { case (key, values) =>
        val value = if (isList) new GenericArrayData(values.toArray[Any]) else values.head
        new GenericInternalRow(Array[Any](key, value))
      }
    session.internalCreateDataFrame(rows, schema)
  }

  /** Refuses others than rows of this kind; names and nullability aside. */
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

  /** Refuses what no state can hold: a key twice, no key, and no value. */
  def checkRows(rows: DataFrame, refused: String => Nothing): Unit = {
    val isNone = col(EditableRows.Key).isNull || col(EditableRows.Value).isNull
    val hasNone =
      if (!stored.holdsLists) isNone
      else
        isNone || size(col(EditableRows.Value)) === 0 || exists(col(EditableRows.Value), _.isNull)
    if (!rows.where(hasNone).isEmpty) refused("a row has no key, or no value")
    if (stored.schema.keySchema.nonEmpty) {
      val twice = rows.groupBy(EditableRows.Key).count().where(col("count") > 1).take(1)
      twice.foreach(row => refused(s"the rows have the key ${row.get(0)} ${row.get(1)} times"))
    }
  }

  /** Key and values of a row. */
  def entry(row: InternalRow): (UnsafeRow, Seq[UnsafeRow]) = {
    def copied(of: InternalRow) = of.asInstanceOf[UnsafeRow].copy()
    val width = stored.schema.valueSchema.length
    val values =
      if (!stored.holdsLists) Seq(copied(row.getStruct(1, width)))
      else {
        val list = row.getArray(1)
        (0 until list.numElements()).map(at => copied(list.getStruct(at, width)))
      }
    (copied(row.getStruct(0, stored.schema.keySchema.length)), values)
  }

  /** The rows as they are stored. */
  def internal(rows: DataFrame) = rows.asInstanceOf[Dataset[_]].queryExecution.toRdd
}

private[offline] object EditableRows {
  val Key = "key"
  val Value = "value"

  /**
   * Refuses those which more than their own rows has to agree with.
   *
   * @param refused
   *   ends the act for a reason
   */
  def of(query: StoredQuery, asked: StateRows, refused: String => Nothing): EditableRows = {
    val operator = query.operators.find(_.id == asked.operator).getOrElse {
      refused(
        s"it has no stateful operator ${asked.operator}; there are " +
          query.operators.map(of => s"${of.id} (${of.name})").mkString(", ")
      )
    }
    val store = operator.stores.indexWhere(_.name == asked.store)
    if (store < 0) {
      val there = operator.stores.map(_.name).mkString(", ")
      refused(s"operator ${asked.operator} has no store '${asked.store}'; there are $there")
    }
    val families = operator.stores(store).families
    val family = families.indexWhere(_.name == asked.family)
    if (family < 0) {
      val there = families.map(_.name).mkString(", ")
      refused(s"that store has no column family '${asked.family}'; there are $there")
    }
    def why(reason: String) = refused(s"the rows of $asked cannot be edited: $reason")
    if (operator.name == StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME) {
      why("the stores of a join have to agree with each other")
    }
    if (StateStoreColumnFamilySchemaUtils.isInternalColFamily(asked.family)) {
      why("it is an index that Spark keeps")
    }
    if (operator.variables.get(asked.family).exists(_.ttlEnabled)) {
      why("an index of Spark's has to agree with the times in it")
    }
    EditableRows(operator, store, family)
  }
}
