package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider

import io.cleancut.engine._
import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.format.frame.FamilySchema

/**
 * Objects derived from the schemas of a family. Creating them takes far longer than opening a
 * store, so a provider creates them once. Like the store, they have one user at a time.
 *
 * @param schemas
 *   source of the older schemas of the family
 */
final private[cleancut] class FamilyKind(
    val schema: FamilySchema,
    memory: Memory,
    schemas: Option[StateSchemaProvider]
) {
  val keyFields: Int = SparkKeyOrder.structOf(schema.keySchema).length
  val valueFields: Int = SparkKeyOrder.structOf(schema.valueSchema).length
  val codec: RowCodec = RowCodec.of(schema, schemas)
  lazy val order: Option[SparkKeyOrder] = SparkKeyOrder.of(schema, memory, schemas)
}

/**
 * One column family of an opened store.
 *
 * @param table
 *   null if the version has no rows of this family yet
 * @param bound
 *   end of the version that is read, or [[Record.NoBound]] to read uncommitted writes
 */
final private[cleancut] class FamilyHandle(
    kind: FamilyKind,
    val table: Table,
    bound: Int,
    memory: Memory
) {
  val name: String = kind.schema.name
  val isMultiValued: Boolean = kind.schema.isMultiValued
  val keyFields: Int = kind.keyFields
  val valueFields: Int = kind.valueFields
  private val codec = kind.codec

  /** See [[RowCodec.copies]]. */
  val copies: Boolean = codec.copies
  private val keyBytes = new Bytes
  private val valueBytes = new Bytes
  private var hashes = Array.emptyIntArray

  /** Computes places of scans; the table has a separate instance for rows that are put. */
  def order: Option[SparkKeyOrder] = kind.order

  /** The writer of this family's changes to the delta; null if there is none. */
  var cursor: DeltaWriter#Cursor = _

  /** Address of the key's newest record, or 0. */
  def find(key: UnsafeRow): Long =
    if (table == null) 0L else table.find(pointKey(key), bound)

  /** Prefetches the records of the first `count` keys; see [[Table.prefetch]]. */
  def prefetch(keys: Array[UnsafeRow], count: Int): Unit = if (table != null) {
    if (hashes.length < count) hashes = new Array[Int](count)
    for (i <- 0 until count) hashes(i) = table.hashOf(pointKey(keys(i)))
    table.prefetch(hashes, count)
  }

  /**
   * The value at a record; for a list of values the first one. Returns a new row each time: joins
   * of state format 1 keep one value while they read the next.
   */
  def valueAt(newest: Long): UnsafeRow = {
    val address = if (isMultiValued) table.valuesAt(newest)(0) else newest
    pointAt(new UnsafeRow(valueFields), address)
  }

  /** Addresses of the records of the key's values, oldest first. */
  def valuesAt(newest: Long): Array[Long] =
    if (isMultiValued) table.valuesAt(newest) else Array(newest)

  /** The value of a record; `row` is reused if the encoding allows it. */
  def pointAt(row: UnsafeRow, address: Long): UnsafeRow = {
    val at = Record.valueAddress(address, Record.keyLength(memory, address))
    codec.valueAt(null, at, Record.valueLength(memory, address), row)
  }

  /** The key of a record; `row` is reused if the encoding allows it. */
  def keyAt(row: UnsafeRow, address: Long): UnsafeRow =
    codec.keyAt(null, Record.keyAddress(address), Record.keyLength(memory, address), row)

  /** The key in these bytes; `row` is reused if the encoding allows it. */
  def keyIn(row: UnsafeRow, key: Bytes): UnsafeRow =
    codec.keyAt(key.base, key.offset, key.length, row)

  /**
   * All rows: in key order if Spark relies on one, otherwise in the order in which they were
   * written.
   */
  def scanAll(): RecordScan =
    if (table == null) RecordScan.Empty
    else if (order.exists(_.isRanged)) table.scan(Place.first, null, bound)
    else table.snapshot(bound)

  def scan(stretch: SparkKeyOrder.Stretch): RecordScan =
    if (table == null) RecordScan.Empty else table.scan(stretch.from, stretch.to, bound)

  /** The bytes of a key, valid until the next call. */
  def pointKey(row: UnsafeRow): Bytes = codec.keyBytes(row, keyBytes)

  /** The bytes of a value, valid until the next call. */
  def pointValue(row: UnsafeRow): Bytes = codec.valueBytes(row, valueBytes)
}
