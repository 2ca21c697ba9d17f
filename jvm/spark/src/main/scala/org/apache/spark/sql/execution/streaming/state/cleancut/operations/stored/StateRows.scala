package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

/**
 * Identifies rows of a query's state.
 *
 * @param operator
 *   Spark's operator ID
 * @param family
 *   column family; `default` if the operator has no others. For a join the side, `left` or `right`,
 *   in the `default` store, regardless of its stores
 */
final case class StateRows(operator: Long, store: String, family: String) {
  override def toString: String = s"operator $operator, store '$store', family '$family'"
}
