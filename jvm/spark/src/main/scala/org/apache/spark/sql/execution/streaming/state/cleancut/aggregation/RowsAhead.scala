package org.apache.spark.sql.execution.streaming.state.cleancut.aggregation

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.StoreHandle

/**
 * Reads its input in groups of rows and prefetches their state. A row is valid until the next call,
 * and so is its key.
 *
 * @param keyOf
 *   computes the key of a row; it may reuse the returned row
 */
final private class RowsAhead(
    rows: Iterator[InternalRow],
    keyOf: UnsafeProjection,
    keyFields: Int,
    rowFields: Int,
    store: ReadStateStore
) extends Iterator[InternalRow] {
  import RowsAhead._

  private val group = new Array[InternalRow](GroupRows)
  private val keys = Array.fill(GroupRows)(UnsafeRow.createFromByteArray(0, keyFields))
  private val copies = Array.fill(GroupRows)(UnsafeRow.createFromByteArray(0, rowFields))
  private var count = 0
  private var at = -1

  /** The key of the row that was returned last. */
  def key: UnsafeRow = keys(at)

  override def hasNext: Boolean = at + 1 < count || rows.hasNext

  override def next(): InternalRow = {
    at += 1
    if (at == count) readGroup()
    group(at)
  }

  private def readGroup(): Unit = {
    at = 0
    count = 0
    while (count < GroupRows && rows.hasNext) {
      val row = rows.next()
      keys(count).copyFrom(keyOf(row))
      group(count) = copied(row)
      count += 1
    }
    if (count == 0) throw new NoSuchElementException("no more rows")
    store match {
      case handle: StoreHandle =>
        handle.prefetch(keys, count, StateStore.DEFAULT_COL_FAMILY_NAME)
      case _ => ()
    }
  }

  private def copied(row: InternalRow): InternalRow = row match {
    case unsafe: UnsafeRow =>
      copies(count).copyFrom(unsafe)
      copies(count)
    case other => other.copy()
  }
}

private object RowsAhead {

  /** As many memory accesses as a processor has in progress at once. */
  private val GroupRows = 16
}
