package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Expression,
  GetStructField,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.types.StructType

/**
 * To which partition a key of the state belongs, as Spark's exchange before the operator has it:
 * the hash of the columns that the operator groups or joins by, which the key begins with, or has
 * in a row within it.
 */
private[operations] trait PartitionOfKey {
  def apply(key: UnsafeRow): Int
}

private[operations] object PartitionOfKey {

  /** Where all state lies in the first partition: of an aggregation without keys, or a limit. */
  private val First: PartitionOfKey = _ => 0

  /** The operator is one whose keys are [[isKnown known]]. */
  def of(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily,
      partitions: Int
  ): PartitionOfKey =
    if (!operator.isSpread) First
    else {
      val place = placeOf(operator, store, family).getOrElse {
        throw new IllegalStateException(s"keys of ${operator.name} in ${store.name}, $family")
      }
      val columns = place.columnsIn(family.schema.keySchema)
      val project =
        UnsafeProjection.create(HashPartitioning(columns, partitions).partitionIdExpression)
      key => project(key).getInt(0)
    }

  /**
   * Where the columns are in a key that the rows of a spread operator are divided by, each by its
   * place in the key, then in the row that is there, and so on. None where that is not known.
   */
  def columnsOf(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily
  ): Option[Seq[Seq[Int]]] = placeOf(operator, store, family).map(_.paths)

  /** Whether it is known to which partitions its keys belong. */
  def isKnown(operator: StoredOperator): Boolean = !operator.isSpread || (for {
    store <- operator.stores
    family <- store.families
  } yield placeOf(operator, store, family)).forall(_.isDefined)

  private def placeOf(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily
  ): Option[Place] = {
    val columns = family.schema.keySchema.length
    operator.name match {
      case StoredOperator.Join =>
        val of = if (family.isDefault) store.name else family.name
        if (family.isTimed || of.endsWith("keyWithIndexToValue")) Some(FirstColumns(columns - 1))
        else Option.when(of.endsWith("keyToNumValues"))(FirstColumns(columns))
      // The last column is where the session begins.
      case StoredOperator.SessionWindow                    => Some(FirstColumns(columns - 1))
      case name if StoredOperator.ByGroup(name)            => Some(FirstColumns(columns))
      case name if StoredOperator.TransformWithState(name) => placeInState(operator, family)
      case _                                               => None
    }
  }

  /** Families of timers, and indexes beside those of variables, are known by their names. */
  private def placeInState(operator: StoredOperator, family: StoredFamily): Option[Place] = {
    val isMap = operator.variables
      .get(family.variable)
      .exists(_.stateVariableType == StateVariableType.MapState)
    family.name match {
      case name if FamilyName.Timers.exists(name.startsWith(_)) =>
        Some(RowAt(Seq(if (name.endsWith(FamilyName.TimersByTime)) 1 else 0)))
      // A moment, and the key of what expires then.
      case name if name.startsWith(FamilyName.Expiry) =>
        Some(RowAt(if (isMap) Seq(1, 0) else Seq(1)))
      case _ if isMap => Some(RowAt(Seq(0)))
      case _          => Some(FirstColumns(family.schema.keySchema.length))
    }
  }

  /** Where a key has the columns that rows are divided by. */
  sealed private trait Place {
    def paths: Seq[Seq[Int]]
    def columnsIn(key: StructType): Seq[Expression]
  }

  final private case class FirstColumns(count: Int) extends Place {
    override def paths: Seq[Seq[Int]] = (0 until count).map(Seq(_))

    override def columnsIn(key: StructType): Seq[Expression] =
      (0 until count).map(columnAt(key, _))
  }

  /** All columns of a row within it. */
  final private case class RowAt(path: Seq[Int]) extends Place {
    override def paths: Seq[Seq[Int]] = Seq(path)

    override def columnsIn(key: StructType): Seq[Expression] = {
      val row = path.tail.foldLeft(columnAt(key, path.head))(GetStructField(_, _))
      row.dataType.asInstanceOf[StructType].indices.map(GetStructField(row, _))
    }
  }

  private def columnAt(key: StructType, at: Int): Expression =
    BoundReference(at, key(at).dataType, key(at).nullable)
}
