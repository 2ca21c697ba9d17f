package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.{
  EditableRows,
  ExecutorTasks
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyAt,
  StoredOperator
}

/** Stored rows of a query, for checks before an operation. */
final private[operations] class StoredRows(
    session: SparkSession,
    stores: OfflineStores,
    tasks: Seq[StateRewrite.Task]
) {

  /** Keys and values of one column family of an operator. */
  def of(operator: StoredOperator)(at: FamilyAt): RDD[(UnsafeRow, Seq[UnsafeRow])] = {
    val partitions = tasks.filter(_.operator.id == operator.id)
    val reader = stores
    ExecutorTasks.each(session.sparkContext, partitions).flatMap(reader.rowsOf(_, at))
  }

  def frame(rows: EditableRows): DataFrame = {
    val stored = of(rows.operator)(rows.families.head)
    session.internalCreateDataFrame(
      stored.flatMap { case (key, values) => rows.displayed(key, values) },
      rows.schema
    )
  }
}
