package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.format.frame.FamilySchema

/** Encodes the rows of a family as bytes in the log, and decodes them. For one thread at a time. */
abstract private[cleancut] class RowCodec {

  /** Whether returned rows are copies, so that they do not require the log's memory. */
  def copies: Boolean

  /** Points `into` at the bytes of a key. */
  def keyBytes(row: UnsafeRow, into: Bytes): Bytes

  def valueBytes(row: UnsafeRow, into: Bytes): Bytes

  /** The key at an address. `reused` may be returned. */
  def keyAt(base: AnyRef, offset: Long, length: Int, reused: UnsafeRow): UnsafeRow

  def valueAt(base: AnyRef, offset: Long, length: Int, reused: UnsafeRow): UnsafeRow
}

private[cleancut] object RowCodec {

  /** `schemas`: source of the older schemas of a family, by ID. */
  def of(schema: FamilySchema, schemas: Option[StateSchemaProvider]): RowCodec =
    if (schema.encoding == FamilySchema.UnsafeRow) RawRows else new AvroRows(schema, schemas)

  /** Spark's row format, not copied on read. */
  object RawRows extends RowCodec {
    override def copies: Boolean = false

    override def keyBytes(row: UnsafeRow, into: Bytes): Bytes =
      into.pointTo(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)

    override def valueBytes(row: UnsafeRow, into: Bytes): Bytes = keyBytes(row, into)

    override def keyAt(base: AnyRef, offset: Long, length: Int, reused: UnsafeRow): UnsafeRow = {
      reused.pointTo(base, offset, length)
      reused
    }

    override def valueAt(base: AnyRef, offset: Long, length: Int, reused: UnsafeRow): UnsafeRow =
      keyAt(base, offset, length, reused)
  }

  /**
   * Spark's Avro encoding with Spark's encoders: values have the ID of the schema that they were
   * written with, and are read as rows of the newest schema.
   */
  final private class AvroRows(schema: FamilySchema, schemas: Option[StateSchemaProvider])
      extends RowCodec {
    private val spec = SparkKeyOrder.specOf(schema)
    private val valueSchema = SparkKeyOrder.structOf(schema.valueSchema)
    private val rows = new AvroStateEncoder(spec, valueSchema, schemas, schema.name)
    private val keys = RocksDBStateEncoder.getKeyEncoder(rows, spec, useColumnFamilies = true)
    private val values =
      RocksDBStateEncoder.getValueEncoder(rows, valueSchema, useMultipleValuesPerKey = false)
    private val bytes = new Bytes

    override def copies: Boolean = true

    override def keyBytes(row: UnsafeRow, into: Bytes): Bytes = pointTo(into, keys.encodeKey(row))

    override def valueBytes(row: UnsafeRow, into: Bytes): Bytes =
      pointTo(into, values.encodeValue(row))

    // Spark's decoders reuse their rows, also for another key.
    override def keyAt(base: AnyRef, offset: Long, length: Int, reused: UnsafeRow): UnsafeRow =
      keys.decodeKey(bytes.pointTo(base, offset, length).toArray(Memory.access)).copy()

    override def valueAt(base: AnyRef, offset: Long, length: Int, reused: UnsafeRow): UnsafeRow =
      values.decodeValue(bytes.pointTo(base, offset, length).toArray(Memory.access)).copy()

    private def pointTo(into: Bytes, array: Array[Byte]): Bytes =
      into.pointTo(array, Memory.ByteArrayOffset, array.length)
  }
}
