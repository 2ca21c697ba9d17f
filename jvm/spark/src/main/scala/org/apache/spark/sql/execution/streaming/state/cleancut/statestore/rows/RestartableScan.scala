package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair

/** The rows of a family, with a scan that can be restarted at another key. */
private[cleancut] trait RestartableScan extends Iterator[UnsafeRowPair] {

  /**
   * Continues with the first row at or after a key, or with a key that begins with these columns.
   */
  def restartFrom(prefix: UnsafeRow): Unit

  def close(): Unit
}
