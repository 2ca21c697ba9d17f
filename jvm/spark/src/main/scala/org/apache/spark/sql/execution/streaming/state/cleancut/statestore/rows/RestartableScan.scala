package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair

/** The rows of a family, which can be walked again from another place on. */
private[cleancut] trait RestartableScan extends Iterator[UnsafeRowPair] {

  /** Goes on with the first row at or behind a key, or one whose key begins with these columns. */
  def restartFrom(prefix: UnsafeRow): Unit

  def close(): Unit
}
