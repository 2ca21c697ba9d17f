package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  FamilyName,
  StoredFamily,
  StoredOperator,
  StoredStore
}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.KeyColumns

/**
 * The partition of a state key, as in Spark's exchange before the operator: the hash of the columns
 * that the operator groups or joins by. The key begins with these columns, or contains them in a
 * nested row.
 */
private[operations] object PartitionOfKey {

  /** Requires an operator whose keys are [[isKnown known]]. */
  def of(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily,
      partitions: Int
  ): UnsafeRow => Int =
    // All state is in the first partition: the operator is an aggregation without keys, or a limit.
    if (!operator.isSpread) _ => 0
    else {
      val places = columnsOf(operator, store, family).getOrElse {
        throw new IllegalStateException(s"keys of ${operator.name} in ${store.name}, $family")
      }
      KeyColumns.partitionOf(family.schema.keySchema, places, partitions)
    }

  /** Whether the partitions of its keys are known. */
  def isKnown(operator: StoredOperator): Boolean = !operator.isSpread || (for {
    store <- operator.stores
    family <- store.families
  } yield columnsOf(operator, store, family)).forall(_.isDefined)

  /**
   * The partitioning columns in a key of a partitioned operator, each as a path: its index in the
   * key, then in the nested row, and so on. None if they are not known.
   */
  def columnsOf(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily
  ): Option[Seq[Seq[Int]]] = {
    val columns = family.schema.keySchema.length
    operator.name match {
      case StoredOperator.Join =>
        val name = if (family.isDefault) store.name else family.name
        if (family.isTimed || name.endsWith("keyWithIndexToValue")) Some(firstColumns(columns - 1))
        else Option.when(name.endsWith("keyToNumValues"))(firstColumns(columns))
      // The last column is the start of the session.
      case StoredOperator.SessionWindow                    => Some(firstColumns(columns - 1))
      case name if StoredOperator.ByGroup(name)            => Some(firstColumns(columns))
      case name if StoredOperator.TransformWithState(name) => placeInState(operator, family)
      case _                                               => None
    }
  }

  /** Families of timers, and indexes of variables, are known by their names. */
  private def placeInState(
      operator: StoredOperator,
      family: StoredFamily
  ): Option[Seq[Seq[Int]]] = {
    val isMap = operator.variables
      .get(family.variable)
      .exists(_.stateVariableType == StateVariableType.MapState)
    family.name match {
      case name if FamilyName.Timers.exists(name.startsWith(_)) =>
        Some(Seq(Seq(if (name.endsWith(FamilyName.TimersByTime)) 1 else 0)))
      // An expiry time, and the key that expires then.
      case name if name.startsWith(FamilyName.Expiry) =>
        Some(Seq(if (isMap) Seq(1, 0) else Seq(1)))
      case _ if isMap => Some(Seq(Seq(0)))
      case _          => Some(firstColumns(family.schema.keySchema.length))
    }
  }

  private def firstColumns(count: Int) = (0 until count).map(Seq(_))
}
