package org.apache.spark.sql.execution.streaming.state.cleancut.aggregation

import org.apache.hadoop.conf.Configuration
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._

/**
 * Reads the state of each group and merges it with the group's row of the epoch. It replaces
 * Spark's [[StateStoreRestoreExec]], which emits both rows one after the other, and the following
 * aggregation, which merges the rows of a group with a hash map.
 *
 * @param child
 *   emits one row for each group: its keys, and then the buffers of the functions, as this operator
 *   does
 */
case class MergedRestoreExec(
    keyExpressions: Seq[Attribute],
    functions: Seq[DeclarativeAggregate],
    stateInfo: Option[StatefulOperatorStateInfo],
    stateFormatVersion: Int,
    child: SparkPlan
) extends UnaryExecNode
    with StateStoreReader {

  private def sparks: StateStoreRestoreExec =
    StateStoreRestoreExec(keyExpressions, stateInfo, stateFormatVersion, child)

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] =
    sparks.validateAndMaybeEvolveStateSchema(hadoopConf, batchId, stateSchemaVersion)

  override protected def doExecute(): RDD[InternalRow] = {
    val numOutputRows = longMetric("numOutputRows")
    val (keys, merged, input) = (keyExpressions, functions, child.output)
    val stored = MergedRestoreExec.stored(stateFormatVersion, keys, input)
    child
      .execute()
      .mapPartitionsWithReadStateStore(
        getStateInfo,
        keys.toStructType,
        stored.toStructType,
        NoPrefixKeyStateEncoderSpec(keys.toStructType),
        session.sessionState,
        Some(session.streams.stateStoreCoordinator)
      ) { case (store, rows) =>
        val keyOf = UnsafeProjection.create(keys, input)
        val merge = new StateMerge(merged, keys, stored, input)
        val ahead = new RowsAhead(rows, keyOf, keys.size, input.size, store)
        ahead.map { row =>
          numOutputRows += 1
          val value = store.get(ahead.key, StateStore.DEFAULT_COL_FAMILY_NAME)
          merge(ahead.key, value, row)
        }
      }
  }

  /** Contains the name of Spark's operator, for users and tools that search plans. */
  override def nodeName: String = "MergedStateStoreRestore"

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def requiredChildDistribution: Seq[Distribution] = sparks.requiredChildDistribution

  override protected def withNewChildInternal(newChild: SparkPlan): MergedRestoreExec =
    copy(child = newChild)
}

private object MergedRestoreExec {

  /** The supported format versions of values in Spark's streaming aggregation. */
  val StateFormats: Set[Int] = Set(1, 2)

  /** The columns of a value: version 2 omits those of the key. */
  def stored(stateFormat: Int, keys: Seq[Attribute], row: Seq[Attribute]): Seq[Attribute] =
    if (stateFormat == 1) row else row.diff(keys)
}
