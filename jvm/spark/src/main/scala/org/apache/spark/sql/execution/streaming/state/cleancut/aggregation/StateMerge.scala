package org.apache.spark.sql.execution.streaming.state.cleancut.aggregation

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.unsafe.Platform

/**
 * Merges the buffers of one group as Spark's hash aggregation does, to the last bit of a double: a
 * buffer that is empty takes in the stored one, and then that of the input. It belongs to one task.
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
   * The row of a group, which holds until the next call.
   *
   * @param value
   *   what the store has for the key, or null
   */
  def apply(key: UnsafeRow, value: UnsafeRow, row: InternalRow): UnsafeRow = {
    clear()
    if (value != null) takeStored(pair(buffer, value))
    takeInput(pair(buffer, row))
    joiner.join(key, buffer)
  }

  // Hash aggregation is planned for types that change in place, so that a buffer never grows.
  private def clear(): Unit = Platform.copyMemory(
    empty.getBaseObject,
    empty.getBaseOffset,
    buffer.getBaseObject,
    buffer.getBaseOffset,
    empty.getSizeInBytes.toLong
  )
}
