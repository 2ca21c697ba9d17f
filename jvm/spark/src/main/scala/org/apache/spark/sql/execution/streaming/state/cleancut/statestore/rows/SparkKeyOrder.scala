package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{DataType, StructType}

import io.cleancut.engine.{KeyOrder, Place}
import io.cleancut.engine.memory.{Bytes, KeyHash, Memory}
import io.cleancut.format.frame.FamilySchema

/**
 * The order of a Spark key encoder spec over keys as rows. Places follow RocksDB's order of encoded
 * keys in the ordering columns; keys with equal ordering columns are ordered by their hashes. Not
 * thread-safe: it reuses its rows.
 */
abstract private[cleancut] class SparkKeyOrder(
    keySchema: StructType,
    memory: Memory,
    codec: RowCodec
) extends KeyOrder {
  import SparkKeyOrder._

  private val keyRow = new UnsafeRow(keySchema.length)
  protected var first = 0L
  protected var second = 0L

  final override def locate(key: Bytes): Unit =
    locate(rowOf(key, keyRow))

  override def major: Long = first
  override def minor: Long = second

  /** The range of rows that a prefix scan visits. */
  def prefixStretch(prefix: UnsafeRow): Stretch = throw new IllegalArgumentException(NoPrefix)

  /** The range of rows that a range scan visits. */
  def rangeStretch(start: Option[UnsafeRow], end: Option[UnsafeRow]): Stretch =
    throw new IllegalArgumentException(NoRange)

  /** The range from the first row with this prefix, or its position, to the end of the family. */
  def from(prefix: UnsafeRow): Stretch = throw new IllegalArgumentException(NoRange)

  /** Whether Spark relies on the order in full scans. */
  def isRanged: Boolean = false

  protected def locate(key: UnsafeRow): Unit

  final protected def rowOf(key: Bytes, reused: UnsafeRow): UnsafeRow =
    codec.keyAt(key.base, key.offset, key.length, reused)

  final protected def hash(row: UnsafeRow): Long =
    KeyHash.hash64(memory, row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)

  final protected def columns(ordinals: Seq[Int]): UnsafeProjection =
    UnsafeProjection.create(ordinals.map { i =>
      BoundReference(i, keySchema(i).dataType, keySchema(i).nullable)
    })

  /**
   * The range of keys with a prefix, in an order by the hash of the columns that `prefixOf`
   * returns.
   */
  final protected def stretchOfHash(prefix: UnsafeRow, prefixOf: UnsafeProjection): Stretch = {
    // The caller may reuse its row while the scan is open.
    val wanted = prefix.copy()
    val place = hash(wanted)
    // Two prefixes may have one hash.
    Stretch(new Place(place, 0L), after(place), has(wanted, prefixOf))
  }

  /** Whether a key begins with these columns, which `prefixOf` extracts. */
  private def has(wanted: UnsafeRow, prefixOf: UnsafeProjection): UnsafeRow => Boolean = {
    val count = wanted.numFields
    val areWords = keySchema.length <= 64 &&
      keySchema.take(count).forall(field => UnsafeRow.isFixedLength(field.dataType))
    if (areWords) beginsWith(_, wanted, count) else prefixOf(_) == wanted
  }

  final protected def leading(count: Int): UnsafeProjection = columns(0 until count)
}

private[cleancut] object SparkKeyOrder {
  private val NoPrefix = "Prefix scan requires setting prefix key!"
  private val NoRange = "Range scan requires an encoder that supports range scanning!"

  /** A range of the order, and a filter of its rows. `to` is null for the end. */
  final case class Stretch(from: Place, to: Place, accepts: UnsafeRow => Boolean)

  val All: UnsafeRow => Boolean = _ => true

  /**
   * The order of a family's keys; None if they are only looked up.
   *
   * @param schemas
   *   source of the older schemas of a family
   */
  def of(
      schema: FamilySchema,
      memory: Memory,
      schemas: Option[StateSchemaProvider]
  ): Option[SparkKeyOrder] = {
    def codec = RowCodec.of(schema, schemas)
    specOf(schema) match {
      case _: NoPrefixKeyStateEncoderSpec      => None
      case spec: PrefixKeyScanStateEncoderSpec =>
        Some(new PrefixOrder(spec.keySchema, spec.numColsPrefixKey, memory, codec))
      case spec: RangeKeyScanStateEncoderSpec =>
        Some(new RangeOrder(spec.keySchema, spec.orderingOrdinals, memory, codec))
      case spec => TimedKeys.orderOf(spec, memory, codec)
    }
  }

  def specOf(schema: FamilySchema): KeyStateEncoderSpec = KeyStateEncoderSpec.fromJson(
    structOf(schema.keySchema),
    JsonMethods.parse(schema.encoder).values.asInstanceOf[Map[String, Any]]
  )

  def structOf(json: String): StructType = DataType.fromJson(json).asInstanceOf[StructType]

  /** Whether the first columns, each in a separate word, are those of the other row. */
  private def beginsWith(key: UnsafeRow, wanted: UnsafeRow, count: Int): Boolean = {
    var i = 0
    while (
      i < count && key.isNullAt(i) == wanted.isNullAt(i) &&
      (key.isNullAt(i) || key.getLong(i) == wanted.getLong(i))
    ) i += 1
    i == count
  }

  /** The order of the bytes of two rows, by which RocksDB orders equal columns. */
  def compareBytes(a: UnsafeRow, b: UnsafeRow): Int =
    java.util.Arrays.compareUnsigned(a.getBytes, b.getBytes)

  /** The place after all places with this major number. */
  def after(major: Long): Place = if (major == -1L) null else new Place(major + 1, 0L)
}

/** Keys with the same prefix are adjacent. */
final private[cleancut] class PrefixOrder(
    keySchema: StructType,
    prefixColumns: Int,
    memory: Memory,
    codec: RowCodec
) extends SparkKeyOrder(keySchema, memory, codec) {
  private val prefixOf = leading(prefixColumns)

  override protected def locate(key: UnsafeRow): Unit = {
    first = hash(prefixOf(key))
    second = hash(key)
  }

  override def prefixStretch(prefix: UnsafeRow): SparkKeyOrder.Stretch =
    stretchOfHash(prefix, prefixOf)
}

/** Keys ordered by a timestamp, their last column. */
final private[cleancut] class TimestampFirstOrder(
    keySchema: StructType,
    memory: Memory,
    codec: RowCodec
) extends SparkKeyOrder(keySchema, memory, codec) {
  private val column = keySchema.length - 1
  private val restOf = leading(column)

  override def isRanged: Boolean = true

  override protected def locate(key: UnsafeRow): Unit = {
    first = timeOf(key)
    second = hash(key)
  }

  override def rangeStretch(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): SparkKeyOrder.Stretch = {
    val from = start.map(row => timeOf(row) -> restOf(row).copy())
    val to = end.map(row => timeOf(row) -> restOf(row).copy())
    def compare(key: UnsafeRow, end: (Long, UnsafeRow)): Int = {
      val byTime = java.lang.Long.compareUnsigned(timeOf(key), end._1)
      if (byTime != 0) byTime else SparkKeyOrder.compareBytes(restOf(key), end._2)
    }
    SparkKeyOrder.Stretch(
      new Place(from.fold(0L)(_._1), 0L),
      to.map(end => SparkKeyOrder.after(end._1)).orNull,
      key => from.forall(compare(key, _) >= 0) && to.forall(compare(key, _) < 0)
    )
  }

  private def timeOf(key: UnsafeRow): Long = key.getLong(column) ^ Long.MinValue
}

/** Keys that differ only in their last column, a timestamp, are adjacent in its order. */
final private[cleancut] class TimestampLastOrder(
    keySchema: StructType,
    memory: Memory,
    codec: RowCodec
) extends SparkKeyOrder(keySchema, memory, codec) {
  private val column = keySchema.length - 1
  private val prefixOf = leading(column)

  override def isRanged: Boolean = true

  override protected def locate(key: UnsafeRow): Unit = {
    first = hash(prefixOf(key))
    second = timeOf(key)
  }

  override def prefixStretch(prefix: UnsafeRow): SparkKeyOrder.Stretch =
    stretchOfHash(prefix, prefixOf)

  override def rangeStretch(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): SparkKeyOrder.Stretch = {
    val prefixes = (start ++ end).map(prefixOf(_).copy()).toSet
    val accepts: UnsafeRow => Boolean =
      if (start.isDefined && end.isDefined && prefixes.size == 1) prefixOf(_) == prefixes.head
      else SparkKeyOrder.All
    SparkKeyOrder.Stretch(
      start.fold(new Place(0L, 0L))(placeOfRow),
      end.map(placeOfRow).orNull,
      accepts
    )
  }

  private def placeOfRow(key: UnsafeRow): Place = {
    locate(key)
    new Place(first, second)
  }

  private def timeOf(key: UnsafeRow): Long = key.getLong(column) ^ Long.MinValue
}
