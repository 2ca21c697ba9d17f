package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyAt,
  StateRows,
  StoredOperator,
  StoredQuery
}

/**
 * Rows in the place of those that there are, with the columns that [[StateRows]] of that query
 * have.
 */
final case class OfflineEdit(of: StateRows, rows: DataFrame)

object OfflineEdit {

  /**
   * Finds rows that can be edited.
   *
   * @param refused
   *   ends the act for a reason
   */
  private[operations] def rowsOf(
      query: StoredQuery,
      asked: StateRows,
      refused: String => Nothing
  ): EditableRows = {
    val operator = query.operators.find(_.id == asked.operator).getOrElse {
      refused(
        s"it has no stateful operator ${asked.operator}; there are " +
          query.operators.map(of => s"${of.id} (${of.name})").mkString(", ")
      )
    }
    def why(reason: String) = refused(s"the rows of $asked cannot be edited: $reason")
    if (operator.name == StoredOperator.Join) {
      JoinSide.of(operator, asked).getOrElse {
        why(
          "the stores of a join have to agree with each other; say the side, 'left' or 'right', " +
            "and no store"
        )
      }
    } else familyOf(operator, asked, refused, why)
  }

  private def familyOf(
      operator: StoredOperator,
      asked: StateRows,
      refused: String => Nothing,
      why: String => Nothing
  ): EditableRows = {
    val store = operator.stores.indexWhere(_.name == asked.store)
    if (store < 0) {
      val there = operator.stores.map(_.name).mkString(", ")
      refused(s"operator ${asked.operator} has no store '${asked.store}'; there are $there")
    }
    val families = operator.stores(store).families.map(_.name)
    val family = FamilyAt(store, families.indexOf(asked.family))
    if (family.family < 0) {
      refused(
        s"that store has no column family '${asked.family}'; there are ${families.mkString(", ")}"
      )
    }
    if (operator.familyAt(family).isInternal) {
      why("it is an index that Spark keeps")
    }
    val expires = operator.variables.get(asked.family).exists(_.ttlEnabled)
    (expires, operator.familyAt(family).holdsLists) match {
      case (false, false) => SingleRows(operator, family)
      case (false, true)  => ListRows(operator, family)
      case (true, false)  => ExpiringRows(operator, family)
      case (true, true)   => ExpiringLists(operator, family)
    }
  }
}
