package org.apache.spark.sql.execution.streaming.state.cleancut.capture

import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.SparkCalls

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Copied rows in order. */
abstract private[cleancut] class RowBuffer {
  private var bytes = 0L
  private var count = 0L

  final def add(row: UnsafeRow): Unit = {
    append(row)
    count += 1
    bytes += row.getSizeInBytes
  }

  final def sizeBytes: Long = bytes

  // The type of Spark's count differs between 4.2.0 and 4.2.1.
  final def size: Long = count

  /** The rows, each valid until the next one. No row may be added meanwhile. */
  def iterator: Iterator[UnsafeRow]

  protected def append(row: UnsafeRow): Unit
}

private[cleancut] object RowBuffer {

  /** A buffer of the current task; beyond some megabytes its rows spill to Spark's local disks. */
  def inTask(): RowBuffer = new SpillingRows

  private val MemoryRows = 16384
  private val MemoryBytes = 8L << 20

  final private class SpillingRows extends RowBuffer {
    private val rows = SparkCalls.rowArray(MemoryRows, MemoryBytes)

    override def iterator: Iterator[UnsafeRow] = rows.generateIterator()
    override protected def append(row: UnsafeRow): Unit = rows.add(row)
  }
}
