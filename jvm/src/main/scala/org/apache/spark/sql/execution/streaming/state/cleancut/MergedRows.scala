package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Two sorted inputs as one. Where rows are equal, those of the first come first. A row is valid
 * until the next is asked for, as in the inputs.
 */
final private[cleancut] class MergedRows(
    first: Iterator[UnsafeRow],
    second: Iterator[UnsafeRow],
    order: Ordering[InternalRow]
) extends Iterator[UnsafeRow] {
  private var ofFirst: UnsafeRow = _
  private var ofSecond: UnsafeRow = _

  override def hasNext: Boolean = {
    if (ofFirst == null && first.hasNext) ofFirst = first.next()
    if (ofSecond == null && second.hasNext) ofSecond = second.next()
    ofFirst != null || ofSecond != null
  }

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException("both inputs have ended")
    if (ofSecond == null || (ofFirst != null && order.lteq(ofFirst, ofSecond))) {
      val row = ofFirst
      ofFirst = null
      row
    } else {
      val row = ofSecond
      ofSecond = null
      row
    }
  }
}
