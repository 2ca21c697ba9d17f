package org.apache.spark.sql.execution.streaming.state.cleancut.capture

import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.SparkCalls

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Rows in their order, copied. */
abstract private[cleancut] class RowBuffer {
  private var bytes = 0L
  private var count = 0L

  final def add(row: UnsafeRow): Unit = {
    append(row)
    count += 1
    bytes += row.getSizeInBytes
  }

  final def sizeBytes: Long = bytes

  // Spark's own count is a number of another type in 4.2.1 than in 4.2.0.
  final def size: Long = count

  /** The rows, each valid until the next; none may be added meanwhile. */
  def iterator: Iterator[UnsafeRow]

  protected def append(row: UnsafeRow): Unit
}

private[cleancut] object RowBuffer {

  /** Rows of the task that asks; beyond some megabytes they go to Spark's local disks. */
  def inTask(): RowBuffer = new SpillingRows

  private val MemoryRows = 16384
  private val MemoryBytes = 8L << 20

  final private class SpillingRows extends RowBuffer {
    private val rows = SparkCalls.rowArray(MemoryRows, MemoryBytes)

    override def iterator: Iterator[UnsafeRow] = rows.generateIterator()
    override protected def append(row: UnsafeRow): Unit = rows.add(row)
  }
}
