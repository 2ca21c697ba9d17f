package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair

import io.cleancut.engine.RecordScan

/**
 * Walks the rows of a scan; the pair and its rows are reused from one row to the next.
 *
 * @param eachValue
 *   whether a key with a list of values comes once for each of them, or once with the first
 */
final private[cleancut] class StoreRows(
    handle: StoreHandle,
    family: FamilyHandle,
    private var scan: RecordScan,
    private var accepts: UnsafeRow => Boolean,
    eachValue: Boolean
) extends Iterator[UnsafeRowPair] {
  import StoreRows._

  private val key = new UnsafeRow(family.keyFields)
  private val value = new UnsafeRow(family.valueFields)
  private val pair = new UnsafeRowPair
  private val candidate = new UnsafeRow(family.keyFields)
  private var state = Unknown
  private var record = 0L
  private var values = NoValues
  private var at = 0

  // Rows are pointed at only in next(): the previous pair stays readable until then.
  override def hasNext: Boolean = {
    if (state == Unknown) {
      handle.guarded("iterator") {
        if (at < values.length) state = Ready
        else {
          var found = scan.advance()
          while (found && !isAccepted) found = scan.advance()
          state = if (found) Ready else Ended
          if (found) take()
        }
      }
    }
    state == Ready
  }

  override def next(): UnsafeRowPair = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    // The handle may have ended since hasNext, and the row with it.
    handle.verifyOpen("iterator")
    state = Unknown
    val valueRow = family.pointAt(value, values(at))
    at += 1
    pair.withRows(family.keyAt(key, record), valueRow)
  }

  def close(): Unit = {
    state = Ended
    values = NoValues
    at = 0
  }

  /** Goes on with another scan. */
  def restart(other: RecordScan, others: UnsafeRow => Boolean): Unit = {
    close()
    scan = other
    accepts = others
    state = Unknown
  }

  private def isAccepted: Boolean =
    (accepts eq SparkKeyOrder.All) || accepts(family.keyAt(candidate, scan.address))

  private def take(): Unit = {
    val address = scan.address
    record = address
    if (eachValue) values = family.valuesAt(address)
    else {
      if (values.length != 1) values = new Array[Long](1)
      values(0) = if (family.isMultiValued) family.valuesAt(address)(0) else address
    }
    at = 0
  }
}

private[cleancut] object StoreRows {
  private val Unknown = 0
  private val Ready = 1
  private val Ended = 2
  private val NoValues = Array.emptyLongArray
}
