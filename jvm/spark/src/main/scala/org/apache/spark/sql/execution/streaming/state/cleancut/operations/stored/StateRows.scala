package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

/**
 * Which rows of a query's state are meant.
 *
 * @param operator
 *   Spark's id of it
 * @param family
 *   the column family; `default` where the operator has no others. Of a join the side, `left` or
 *   `right`, in the `default` store, whatever stores it has
 */
final case class StateRows(operator: Long, store: String, family: String) {
  override def toString: String = s"operator $operator, store '$store', family '$family'"
}
