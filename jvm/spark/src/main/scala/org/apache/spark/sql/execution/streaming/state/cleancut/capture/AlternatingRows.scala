package org.apache.spark.sql.execution.streaming.state.cleancut.capture

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Merges two sorted inputs. Of equal rows, those of the first input come first. A row is valid
 * until the next one is requested, as in the inputs.
 */
final private[cleancut] class MergedRows(
    first: Iterator[UnsafeRow],
    second: Iterator[UnsafeRow],
    order: Ordering[InternalRow]
) extends Iterator[UnsafeRow] {
  private var firstRow: UnsafeRow = _
  private var secondRow: UnsafeRow = _

  override def hasNext: Boolean = {
    if (firstRow == null && first.hasNext) firstRow = first.next()
    if (secondRow == null && second.hasNext) secondRow = second.next()
    firstRow != null || secondRow != null
  }

  override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException("both inputs have ended")
    if (secondRow == null || (firstRow != null && order.lteq(firstRow, secondRow))) {
      val row = firstRow
      firstRow = null
      row
    } else {
      val row = secondRow
      secondRow = null
      row
    }
  }
}

/**
 * The cyclic order of keys that begins after a row and ends with the keys before it.
 *
 * @param isTurned
 *   whether a row is before the start of the cycle, so that it comes after the others
 */
final private[cleancut] class TurnedOrder(
    order: Ordering[InternalRow],
    isTurned: InternalRow => Boolean
) extends Ordering[InternalRow] {

  override def compare(a: InternalRow, b: InternalRow): Int = {
    val turned = isTurned(a)
    if (turned == isTurned(b)) order.compare(a, b) else if (turned) 1 else -1
  }
}

/**
 * Order of the rows of an input that is grouped by key.
 *
 * @param keys
 *   compares only the keys of rows
 * @param rows
 *   compares keys first, then the rows of a key. It has more columns than `keys` if the operator
 *   requires sorted groups
 */
final private[cleancut] case class GroupedOrder(
    keys: Ordering[InternalRow],
    rows: Ordering[InternalRow]
)

/**
 * Orders the rows of a shuffle input by key, with in-flight rows of earlier epochs before the
 * others of their key. The order begins after the key at which the last epoch was overtaken: if it
 * always began with the first key, the last keys would never be processed while an earlier key is
 * overtaken in each epoch.
 */
private[cleancut] object AlternatingRows {

  /**
   * @param earlier
   *   in-flight rows in their order, beginning with the key that was overtaken
   * @param exchanged
   *   rows of the exchange, sorted by `order.rows`
   * @param order
   *   order of the keys, and of the rows
   * @param splitsGroups
   *   whether rows of the first key of `earlier` have been emitted
   * @param buffer
   *   buffer of this task
   */
  def apply(
      earlier: RowBuffer,
      exchanged: Iterator[UnsafeRow],
      order: GroupedOrder,
      splitsGroups: Boolean,
      buffer: RowBuffer
  ): Iterator[UnsafeRow] = if (earlier.size == 0) exchanged
  else {
    val cut = earlier.iterator.next().copy()
    val isTurned: InternalRow => Boolean =
      if (splitsGroups) order.keys.lteq(_, cut) else order.keys.lt(_, cut)
    val ofCut = (row: UnsafeRow) => splitsGroups && order.keys.equiv(row, cut)
    val turned = earlier.iterator.dropWhile(ofCut) ++ earlier.iterator.takeWhile(ofCut)
    new MergedRows(turned, turn(exchanged, isTurned, buffer), new TurnedOrder(order.rows, isTurned))
  }

  /** Moves the rows before the start of the cycle, which arrive first, to the end. */
  private def turn(
      sorted: Iterator[UnsafeRow],
      isTurned: InternalRow => Boolean,
      buffer: RowBuffer
  ): Iterator[UnsafeRow] = {
    val others = sorted.dropWhile { row =>
      val turned = isTurned(row)
      if (turned) buffer.add(row)
      turned
    }
    others ++ buffer.iterator
  }
}
