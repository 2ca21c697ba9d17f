package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStoreErrors
import org.apache.spark.sql.types._

import io.cleancut.engine.Place
import io.cleancut.engine.memory.{Bytes, Memory}

/**
 * Orders keys by some of their columns: ascending, nulls last, floating-point numbers from negative
 * infinity to NaN. The columns are encoded as bits, of which the first 128 are the place; unused
 * bits are filled with the hash of the key. Columns that need more bits are compared one by one.
 */
final private[cleancut] class RangeOrder(
    keySchema: StructType,
    ordinals: Seq[Int],
    memory: Memory,
    codec: RowCodec
) extends SparkKeyOrder(keySchema, memory, codec) {
  import RangeOrder._

  private val inKey = ordinals.map(i => Column(i, keySchema(i))).toArray
  // A prefix has only the ordering columns.
  private val inPrefix = ordinals.zipWithIndex.map { case (i, at) =>
    Column(at, keySchema(i))
  }.toArray
  private val restOf = columns(keySchema.indices.diff(ordinals))
  private val bits = inKey.map(_.bits).sum
  private val keyRow = new UnsafeRow(keySchema.length)
  private val otherRow = new UnsafeRow(keySchema.length)
  private var used = 0

  override def isRanged: Boolean = true

  override def isTotal: Boolean = bits <= PlaceBits

  override def compare(a: Bytes, b: Bytes): Int = compareRows(
    rowOf(a, keyRow),
    inKey,
    rowOf(b, otherRow),
    inKey
  )

  override protected def locate(key: UnsafeRow): Unit = {
    locate(key, inKey)
    if (bits < PlaceBits) append(hash(key), Math.min(PlaceBits - bits, 64))
  }

  override def prefixStretch(prefix: UnsafeRow): SparkKeyOrder.Stretch = {
    val wanted = prefix.copy()
    val place = placeOf(wanted, inPrefix)
    SparkKeyOrder.Stretch(place, next(place), compareRows(_, inKey, wanted, inPrefix) == 0)
  }

  override def rangeStretch(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow]
  ): SparkKeyOrder.Stretch = {
    val from = start.map(new End(_))
    val to = end.map(new End(_))
    SparkKeyOrder.Stretch(
      from.fold(new Place(0L, 0L))(_.place),
      // Keys at the place of the end may precede it.
      to.map(end => next(end.place)).orNull,
      key => from.forall(_.compare(key) <= 0) && to.forall(_.compare(key) > 0)
    )
  }

  /** One end of a range scan: a key that need not exist. */
  final private class End(row: UnsafeRow) {
    private val columns = row.copy()
    private val rest = restOf(row).copy()
    val place: Place = placeOf(columns, inKey)

    def compare(key: UnsafeRow): Int = {
      val byColumns = compareRows(columns, inKey, key, inKey)
      if (byColumns != 0) byColumns else SparkKeyOrder.compareBytes(rest, restOf(key))
    }
  }

  override def from(prefix: UnsafeRow): SparkKeyOrder.Stretch = {
    val wanted = prefix.copy()
    SparkKeyOrder.Stretch(
      placeOf(wanted, inPrefix),
      null,
      if (isTotal) SparkKeyOrder.All else compareRows(_, inKey, wanted, inPrefix) >= 0
    )
  }

  private def placeOf(row: UnsafeRow, columns: Array[Column]): Place = {
    locate(row, columns)
    new Place(first, second)
  }

  private def locate(row: UnsafeRow, columns: Array[Column]): Unit = {
    first = 0L
    second = 0L
    used = 0
    var i = 0
    while (i < columns.length) {
      val column = columns(i)
      val isNull = row.isNullAt(column.ordinal)
      if (column.isNullable) append(if (isNull) 1L else 0L, 1)
      append(if (isNull) 0L else column.valueOf(row), column.width)
      i += 1
    }
  }

  /** Appends the lower `width` bits of `value`; bits beyond the end of a place are dropped. */
  private def append(value: Long, width: Int): Unit = {
    val clean = if (width == 64) value else value & ((1L << width) - 1)
    val end = used + width
    if (end <= 64) first |= clean << (64 - end)
    else {
      if (used < 64) first |= clean >>> (end - 64)
      if (end <= PlaceBits) second |= clean << (PlaceBits - end)
      else if (used < PlaceBits) second |= clean >>> (end - PlaceBits)
    }
    used = end
  }

  /** The first place after all keys with these ordering columns. */
  private def next(place: Place): Place = {
    val rest = Math.max(PlaceBits - bits, 0)
    if (rest >= 64) {
      val step = if (rest == PlaceBits) 0L else 1L << (rest - 64)
      val major = place.major + step
      if (step == 0L || java.lang.Long.compareUnsigned(major, place.major) < 0) null
      else new Place(major, 0L)
    } else {
      val minor = place.minor + (1L << rest)
      if (java.lang.Long.compareUnsigned(minor, place.minor) > 0) new Place(place.major, minor)
      else SparkKeyOrder.after(place.major)
    }
  }
}

private[cleancut] object RangeOrder {
  private val PlaceBits = 128

  /** Throws Spark's errors for columns that cannot be ordered. */
  def check(keySchema: StructType, ordinals: Seq[Int]): Unit =
    ordinals.foreach { ordinal =>
      val field = keySchema(ordinal)
      field.dataType match {
        case NullType =>
          throw StateStoreErrors.nullTypeOrderingColsNotSupported(field.name, ordinal.toString)
        case other if widthOf(other).isEmpty =>
          throw StateStoreErrors.variableSizeOrderingColsNotSupported(field.name, ordinal.toString)
        case _ => ()
      }
    }

  private def widthOf(dataType: DataType): Option[Int] = dataType match {
    case BooleanType             => Some(1)
    case ByteType                => Some(8)
    case ShortType               => Some(16)
    case IntegerType | FloatType => Some(32)
    case LongType | DoubleType   => Some(64)
    case _                       => None
  }

  private def compareRows(
      a: UnsafeRow,
      columnsOfA: Array[Column],
      b: UnsafeRow,
      columnsOfB: Array[Column]
  ): Int = {
    var i = 0
    var result = 0
    while (result == 0 && i < columnsOfA.length) {
      val nullA = a.isNullAt(columnsOfA(i).ordinal)
      val nullB = b.isNullAt(columnsOfB(i).ordinal)
      result =
        if (nullA || nullB) java.lang.Boolean.compare(nullA, nullB)
        else java.lang.Long.compareUnsigned(columnsOfA(i).valueOf(a), columnsOfB(i).valueOf(b))
      i += 1
    }
    result
  }

  /** An ordering column and its ordinal. */
  final private case class Column(ordinal: Int, field: StructField) {
    val width: Int = widthOf(field.dataType).get
    val isNullable: Boolean = field.nullable
    val bits: Int = width + (if (isNullable) 1 else 0)
    private val kind = field.dataType

    /** The value as `width` bits whose unsigned order is the order of the values. */
    def valueOf(row: UnsafeRow): Long = kind match {
      case LongType    => row.getLong(ordinal) ^ Long.MinValue
      case IntegerType => (row.getInt(ordinal) ^ Int.MinValue) & 0xffffffffL
      case ShortType   => (row.getShort(ordinal) ^ 0x8000) & 0xffffL
      case ByteType    => (row.getByte(ordinal) ^ 0x80) & 0xffL
      case BooleanType => if (row.getBoolean(ordinal)) 1L else 0L
      case DoubleType  =>
        val raw = java.lang.Double.doubleToRawLongBits(row.getDouble(ordinal))
        if (raw < 0) ~raw else raw ^ Long.MinValue
      case FloatType =>
        val raw = java.lang.Float.floatToRawIntBits(row.getFloat(ordinal))
        (if (raw < 0) ~raw else raw ^ Int.MinValue) & 0xffffffffL
      case other => throw new IllegalStateException(s"a column of type $other is not ordered")
    }
  }
}
