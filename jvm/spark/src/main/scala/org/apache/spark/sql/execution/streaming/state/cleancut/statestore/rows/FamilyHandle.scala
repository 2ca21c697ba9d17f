package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider

import io.cleancut.engine._
import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.format.frame.FamilySchema

/**
 * What follows from the schemas of a family. It takes far longer to make than a task takes to open
 * a store, so a provider makes it once; like the store it serves one user at a time.
 *
 * @param schemas
 *   where Spark keeps the older schemas of the family
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
 * One column family as an opened store uses it.
 *
 * @param table
 *   null if the version has nothing of this family yet
 * @param bound
 *   the end of the version that is read, or [[Record.NoBound]] to read one's own writes
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

  /** For places in scans; the table has one of its own for what is put. */
  def order: Option[SparkKeyOrder] = kind.order

  /** What writes this family's changes into the delta; null if nothing does. */
  var cursor: DeltaWriter#Cursor = _

  /** Address of the key's newest record, or 0. */
  def find(key: UnsafeRow): Long =
    if (table == null) 0L else table.find(pointKey(key), bound)

  /**
   * The value at a record; of a list of values the first one. Each time in a row of its own: joins
   * of state format 1 hold on to one value while they read the next.
   */
  def valueAt(newest: Long): UnsafeRow = {
    val address = if (isMultiValued) table.valuesAt(newest)(0) else newest
    pointAt(new UnsafeRow(valueFields), address)
  }

  /** Addresses of the records of the key's values, oldest first. */
  def valuesAt(newest: Long): Array[Long] =
    if (isMultiValued) table.valuesAt(newest) else Array(newest)

  /** The value of a record; `row` is reused where the encoding allows it. */
  def pointAt(row: UnsafeRow, address: Long): UnsafeRow = {
    val at = Record.valueAddress(address, Record.keyLength(memory, address))
    codec.valueAt(null, at, Record.valueLength(memory, address), row)
  }

  /** The key of a record; likewise. */
  def keyAt(row: UnsafeRow, address: Long): UnsafeRow =
    codec.keyAt(null, Record.keyAddress(address), Record.keyLength(memory, address), row)

  /** All rows: in the order of their keys if Spark relies on one, else as they were written. */
  def scanAll(): RecordScan =
    if (table == null) RecordScan.Empty
    else if (order.exists(_.isRanged)) table.scan(Place.first, null, bound)
    else table.snapshot(bound)

  def scan(stretch: SparkKeyOrder.Stretch): RecordScan =
    if (table == null) RecordScan.Empty else table.scan(stretch.from, stretch.to, bound)

  /** The bytes of a key, until the next one. */
  def pointKey(row: UnsafeRow): Bytes = codec.keyBytes(row, keyBytes)

  /** The bytes of a value, until the next one. */
  def pointValue(row: UnsafeRow): Bytes = codec.valueBytes(row, valueBytes)
}
