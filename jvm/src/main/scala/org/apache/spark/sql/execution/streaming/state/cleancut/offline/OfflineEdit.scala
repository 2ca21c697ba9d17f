package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.{DataType, StructType}

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

  def schema: StructType = new StructType()
    .add(EditableRows.Key, stored.schema.keySchema, nullable = false)
    .add(EditableRows.Value, stored.schema.valueSchema, nullable = false)

  /** As they are after the epoch of a query. */
  def frame(
      stores: OfflineStores,
      tasks: Seq[StateRewrite.Task],
      session: SparkSession
  ): DataFrame = {
    val own = tasks.filter(_.operator.id == operator.id)
    val rows = session.sparkContext
      .parallelize(own, Math.max(own.size, 1))
      .flatMap(stores.rowsOf(_, store, family))
      .map[InternalRow] { case (key, value) => new GenericInternalRow(Array[Any](key, value)) }
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

  /** Refuses what no state can hold: a key twice, and no key. */
  def checkRows(rows: DataFrame, refused: String => Nothing): Unit = {
    val isNone = col(EditableRows.Key).isNull || col(EditableRows.Value).isNull
    if (!rows.where(isNone).isEmpty) refused("a row has no key, or no value")
    if (stored.schema.keySchema.nonEmpty) {
      val twice = rows.groupBy(EditableRows.Key).count().where(col("count") > 1).take(1)
      twice.foreach(row => refused(s"the rows have the key ${row.get(0)} ${row.get(1)} times"))
    }
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
    if (families(family).holdsLists) why("a key of it has a list of values")
    if (StateStoreColumnFamilySchemaUtils.isInternalColFamily(asked.family)) {
      why("it is an index that Spark keeps")
    }
    if (operator.variables.get(asked.family).exists(_.ttlEnabled)) {
      why("an index of Spark's has to agree with the times in it")
    }
    EditableRows(operator, store, family)
  }
}
