package io.cleancut.faults

import scala.collection.mutable

import org.apache.spark.sql.Row

/** Numbers of wrong rows. */
final case class RowCounts(lost: Long, duplicated: Long, outOfOrder: Long) {
  def +(other: RowCounts): RowCounts = RowCounts(
    lost + other.lost,
    duplicated + other.duplicated,
    outOfOrder + other.outOfOrder
  )
}

object RowCounts {
  val None: RowCounts = RowCounts(0, 0, 0)
}

/** The rows of a sink by epoch; a repeated epoch replaces its first run. */
final class SinkCheck {
  private val epochs = mutable.TreeMap.empty[Long, Seq[Row]]

  def has(epoch: Long): Boolean = synchronized(epochs.contains(epoch))

  def take(epoch: Long, rows: Seq[Row]): Unit = synchronized { epochs(epoch) = rows }

  def size: Int = synchronized(epochs.size)

  /** The last row of each key. */
  def totals: Set[Row] = synchronized(byKey.values.map(_.last).toSet)

  /**
   * @param expected
   *   number of input rows of each key
   */
  def counts(expected: Map[Long, Long]): RowCounts = synchronized {
    val ofKeys = byKey.map { case (key, rows) => ofKey(rows, expected(key)) }
    val missing = expected.removedAll(byKey.keys).values.sum
    ofKeys.fold(RowCounts(missing, 0, 0))(_ + _)
  }

  private def byKey: Map[Long, Seq[Row]] =
    epochs.values.flatten.toSeq.groupBy(_.getAs[Long]("key"))

  private def ofKey(rows: Seq[Row], expected: Long): RowCounts = {
    val each = rows.map { row =>
      val (count, due) = (row.getAs[Long]("rows"), row.getAs[Long]("last") + 1)
      // The right number of rows with a wrong sum: at least one row replaces another one.
      val swapped = if (count == due && row.getAs[Long]("sum") != due * (due - 1) / 2) 1L else 0L
      RowCounts(Math.max(due - count, 0) + swapped, Math.max(count - due, 0) + swapped, 0)
    }
    val lasts = rows.map(_.getAs[Long]("last"))
    val disorder = lasts.zip(lasts.drop(1)).count { case (one, next) => next <= one }
    each.fold(RowCounts(Math.max(expected - lasts.last - 1, 0), 0, disorder.toLong))(_ + _)
  }
}
