package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Expression,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  MapStatePartitionKeyExtractor,
  MapTTLStatePartitionKeyExtractor,
  StateStoreColumnFamilySchemaUtils,
  StateVariableType,
  TTLStatePartitionKeyExtractor,
  TimerStatePartitionKeyExtractor,
  TransformWithStateVariableInfo
}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.timers._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * To which partition a key of the state belongs, as Spark's exchange before the operator has it:
 * the hash of the columns that the operator groups or joins by, which the key begins with, ends
 * with, or is.
 */
private[offline] trait PartitionOfKey {
  def apply(key: UnsafeRow): Int
}

private[offline] object PartitionOfKey {

  /** Where all state lies in the first partition: of an aggregation without keys, or a limit. */
  private val First: PartitionOfKey = _ => 0

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OFFLINE_REFUSED, the operator is not known
   */
  def of(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily,
      partitions: Int
  ): PartitionOfKey =
    if (!operator.isSpread) First
    else {
      val extractor = extractorOf(operator, store, family)
      val schema = extractor.partitionKeySchema
      val hashed = hashing(columns(schema), partitions)
      key => hashed(extractor.partitionKey(key))
    }

  /**
   * Where the columns are in a key that the rows of a spread operator are divided by, each by its
   * place in the key, then in the row that is there, and so on. None where that is not known.
   */
  def columnsOf(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily
  ): Option[Seq[Seq[Int]]] = {
    val extractor = extractorOf(operator, store, family)
    def first(columns: Int) = Some((0 until columns).map(Seq(_)))
    extractor match {
      case _: BesideTime | _: NoopStatePartitionKeyExtractor |
          _: DropLastNFieldsStatePartitionKeyExtractor =>
        first(extractor.partitionKeySchema.length)
      case _: MapTTLStatePartitionKeyExtractor => Some(Seq(Seq(1, 0)))
      case _: MapStatePartitionKeyExtractor    => Some(Seq(Seq(0)))
      case _: TTLStatePartitionKeyExtractor    => Some(Seq(Seq(1)))
      case _: TimerStatePartitionKeyExtractor  =>
        Some(Seq(Seq(if (TimerStateUtils.isTimerSecondaryIndexCF(family.name)) 1 else 0)))
      case _ => None
    }
  }

  private def hashing(columns: Seq[Expression], partitions: Int): UnsafeRow => Int = {
    val project =
      UnsafeProjection.create(HashPartitioning(columns, partitions).partitionIdExpression)
    key => project(key).getInt(0)
  }

  private def columns(schema: StructType): Seq[Expression] = schema.zipWithIndex.map {
    case (field, index) => BoundReference(index, field.dataType, field.nullable)
  }

  private def extractorOf(
      operator: StoredOperator,
      store: StoredStore,
      family: StoredFamily
  ): StatePartitionKeyExtractor =
    if (isTimed(family)) new BesideTime(family.schema.keySchema)
    else
      StatePartitionKeyExtractorFactory.create(
        operator.name,
        family.schema.keySchema,
        store.name,
        family.name,
        operator.joinFormat,
        variableOf(operator, family)
      )

  /** Families of timers, and indexes beside those of variables, are described by their names. */
  private def variableOf(
      operator: StoredOperator,
      family: StoredFamily
  ): Option[TransformWithStateVariableInfo] =
    operator.variables
      .get(family.name)
      .orElse(
        operator.variables.get(StateStoreColumnFamilySchemaUtils.getBaseStateName(family.name))
      )
      .orElse(
        Option.when(TimerStateUtils.isTimerCFName(family.name))(
          TransformWithStateVariableInfo(family.name, StateVariableType.TimerState, false)
        )
      )

  /** Keys of joins of format 4, which Spark's own extractor takes as they are. */
  private def isTimed(family: StoredFamily): Boolean = family.schema.keyStateEncoderSpec.exists {
    case _: TimestampAsPostfixKeyStateEncoderSpec | _: TimestampAsPrefixKeyStateEncoderSpec => true
    case _                                                                                  => false
  }

  /** What is joined by: the key without the time of the rows, its last column. */
  final private class BesideTime(key: StructType) extends StatePartitionKeyExtractor {
    override val partitionKeySchema: StructType = StructType(key.init)
    private val project = UnsafeProjection.create(columns(key).init)
    override def partitionKey(row: UnsafeRow): UnsafeRow = project(row)
  }
}
