package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyAt,
  StateRows,
  StoredOperator,
  StoredQuery
}

/** Rows that replace stored rows, with the columns of [[StateRows]] of the query. */
final case class OfflineEdit(target: StateRows, rows: DataFrame)

object OfflineEdit {

  /**
   * Finds rows that can be edited.
   *
   * @param refused
   *   ends the operation with a reason
   */
  private[operations] def rowsOf(
      query: StoredQuery,
      requested: StateRows,
      refused: String => Nothing
  ): EditableRows = {
    val operator = query.operators.find(_.id == requested.operator).getOrElse {
      refused(
        s"it has no stateful operator ${requested.operator}; there are " +
          query.operators.map(operator => s"${operator.id} (${operator.name})").mkString(", ")
      )
    }
    def why(reason: String) = refused(s"the rows of $requested cannot be edited: $reason")
    if (operator.name == StoredOperator.Join) {
      JoinSide.of(operator, requested).getOrElse {
        why(
          "the stores of a join must agree with each other; use the side, 'left' or 'right', " +
            "instead of a store"
        )
      }
    } else familyOf(operator, requested, refused, why)
  }

  private def familyOf(
      operator: StoredOperator,
      requested: StateRows,
      refused: String => Nothing,
      why: String => Nothing
  ): EditableRows = {
    val store = operator.stores.indexWhere(_.name == requested.store)
    if (store < 0) {
      val there = operator.stores.map(_.name).mkString(", ")
      refused(s"operator ${requested.operator} has no store '${requested.store}'; there are $there")
    }
    val families = operator.stores(store).families.map(_.name)
    val family = FamilyAt(store, families.indexOf(requested.family))
    if (family.family < 0) {
      refused(
        s"that store has no column family '${requested.family}'; there are " +
          families.mkString(", ")
      )
    }
    if (operator.familyAt(family).isInternal) {
      why("it is an index that Spark maintains")
    }
    val expires = operator.variables.get(requested.family).exists(_.ttlEnabled)
    (expires, operator.familyAt(family).holdsLists) match {
      case (false, false) => SingleRows(operator, family)
      case (false, true)  => ListRows(operator, family)
      case (true, false)  => ExpiringRows(operator, family)
      case (true, true)   => ExpiringLists(operator, family)
    }
  }
}
