package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.cleancut.engine._
import io.cleancut.format.FamilySchema

/**
 * One column family as an opened store uses it. A row that it returns is reused by the next read of
 * the same family.
 *
 * @param table
 *   null if the version has nothing of this family yet
 * @param bound
 *   the end of the version that is read, or [[Record.NoBound]] to read one's own writes
 */
final private[cleancut] class FamilyHandle(
    val schema: FamilySchema,
    val table: Table,
    bound: Int,
    memory: Memory
) {
  val name: String = schema.name
  val isMultiValued: Boolean = schema.isMultiValued
  val keyFields: Int = SparkKeyOrder.structOf(schema.keySchema).length
  val valueFields: Int = SparkKeyOrder.structOf(schema.valueSchema).length
  val keyBytes = new Bytes
  val valueBytes = new Bytes

  /** For places in scans; the table has one of its own for what is put. */
  lazy val order: Option[SparkKeyOrder] = SparkKeyOrder.of(schema, memory)

  /** What writes this family's changes into the delta; null if nothing does. */
  var cursor: DeltaWriter#Cursor = _

  private val value = new UnsafeRow(valueFields)

  /** Address of the key's newest record, or 0. */
  def find(key: UnsafeRow): Long =
    if (table == null) 0L else table.find(point(keyBytes, key), bound)

  /** The value at a record; of a list of values the first one. */
  def valueAt(newest: Long): UnsafeRow =
    pointAt(value, if (isMultiValued) table.valuesAt(newest)(0) else newest)

  /** Addresses of the records of the key's values, oldest first. */
  def valuesAt(newest: Long): Array[Long] =
    if (isMultiValued) table.valuesAt(newest) else Array(newest)

  def pointAt(row: UnsafeRow, address: Long): UnsafeRow = {
    val at = Record.valueAddress(address, Record.keyLength(memory, address))
    row.pointTo(null, at, Record.valueLength(memory, address))
    row
  }

  def scanAll(): RecordScan = if (table == null) RecordScan.Empty else table.snapshot(bound)

  def scan(stretch: SparkKeyOrder.Stretch): RecordScan =
    if (table == null) RecordScan.Empty else table.scan(stretch.from, stretch.to, bound)

  def point(bytes: Bytes, row: UnsafeRow): Bytes =
    bytes.pointTo(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)
}
