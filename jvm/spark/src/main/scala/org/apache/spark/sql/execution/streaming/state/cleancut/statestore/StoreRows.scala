package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  FamilyHandle,
  SparkKeyOrder
}

import io.cleancut.engine.{Record, RecordScan}
import io.cleancut.engine.memory.Memory

/**
 * Iterates over the rows of a scan; the pair and its rows are reused.
 *
 * @param eachValue
 *   whether a key with a list of values is returned once for each value, or once with the first
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
  private val memory = Memory.access
  private var state = Unknown
  private var values = NoValues
  private var at = 0

  // The location of the next row, or the row itself if it is a copy.
  private var keyAddress = 0L
  private var keyLength = 0
  private var valueAddress = 0L
  private var valueLength = 0
  private var copiedKey: UnsafeRow = _
  private var copiedValue: UnsafeRow = _

  // Rows are set only in next(): the previous pair stays readable until then.
  override def hasNext: Boolean = {
    if (state == Unknown) {
      handle.guarded("iterator") {
        if (at < values.length) prepare()
        else {
          var hasNextRecord = scan.advance()
          while (hasNextRecord && !isAccepted) hasNextRecord = scan.advance()
          if (hasNextRecord) take() else state = Ended
        }
      }
    }
    state == Ready
  }

  override def next(): UnsafeRowPair = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    // The handle may have ended since hasNext, which invalidates the row.
    handle.verifyOpen("iterator")
    state = Unknown
    if (family.copies) pair.withRows(copiedKey, copiedValue)
    else {
      key.pointTo(null, keyAddress, keyLength)
      value.pointTo(null, valueAddress, valueLength)
      pair.withRows(key, value)
    }
  }

  def close(): Unit = {
    state = Ended
    values = NoValues
    at = 0
  }

  /** Continues with another scan. */
  def restart(other: RecordScan, others: UnsafeRow => Boolean): Unit = {
    close()
    scan = other
    accepts = others
    state = Unknown
  }

  private def isAccepted: Boolean =
    (accepts eq SparkKeyOrder.All) || accepts(family.keyAt(candidate, scan.address))

  private def take(): Unit = {
    val newest = scan.address
    keyAddress = Record.keyAddress(newest)
    keyLength = Record.keyLength(memory, newest)
    if (family.copies) copiedKey = family.keyAt(key, newest)
    if (eachValue) values = family.valuesAt(newest)
    else {
      if (values.length != 1) values = new Array[Long](1)
      values(0) = if (family.isMultiValued) family.valuesAt(newest)(0) else newest
    }
    at = 0
    prepare()
  }

  /** Locates the next value under the spin lock, because the log may only be read there. */
  private def prepare(): Unit = {
    val record = values(at)
    at += 1
    if (family.copies) copiedValue = family.pointAt(value, record)
    else {
      valueAddress = Record.valueAddress(record, Record.keyLength(memory, record))
      valueLength = Record.valueLength(memory, record)
    }
    state = Ready
  }
}

private[cleancut] object StoreRows {
  private val Unknown = 0
  private val Ready = 1
  private val Ended = 2
  private val NoValues = Array.emptyLongArray
}
