package org.apache.spark.sql.execution.streaming.state.cleancut.aggregation

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.unsafe.Platform

/**
 * Merges the buffers of one group as Spark's hash aggregation does, bit by bit for doubles: an
 * empty buffer is merged with the stored one, and then with the input's. It belongs to one task.
 */
final private class StateMerge(
    functions: Seq[DeclarativeAggregate],
    keys: Seq[Attribute],
    stored: Seq[Attribute],
    input: Seq[Attribute]
) {
  private val buffers = functions.flatMap(_.aggBufferAttributes)
  private val merges = functions.flatMap(_.mergeExpressions)
  private val empty = UnsafeProjection.create(functions.flatMap(_.initialValues))(EmptyRow).copy()
  private val buffer = empty.copy()
  private val pair = new JoinedRow
  private val takeStored = MutableProjection.create(merges, buffers ++ stored).target(buffer)
  private val takeInput = MutableProjection.create(merges, buffers ++ input).target(buffer)
  private val joiner = GenerateUnsafeRowJoiner.create(keys.toStructType, buffers.toStructType)

  /**
   * The merged row of a group, valid until the next call.
   *
   * @param value
   *   the stored value of the key, or null
   */
  def apply(key: UnsafeRow, value: UnsafeRow, row: InternalRow): UnsafeRow = {
    clear()
    if (value != null) takeStored(pair(buffer, value))
    takeInput(pair(buffer, row))
    joiner.join(key, buffer)
  }

  // Hash aggregation is planned for fixed-size types, so a buffer never grows.
  private def clear(): Unit = Platform.copyMemory(
    empty.getBaseObject,
    empty.getBaseOffset,
    buffer.getBaseObject,
    buffer.getBaseOffset,
    empty.getSizeInBytes.toLong
  )
}
