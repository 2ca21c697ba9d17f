package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.{Failure, Random, Success, Try}

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.TimedKeys
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.cleancut.testkit.Draws

/**
 * Column families of each kind, with randomized operations on Cleancut and on RocksDB in one JVM.
 * All results, refusals and versions must be equal.
 */
class FamiliesDifferentialSuite extends AnyFunSuite {
  import FamiliesDifferentialSuite._

  test("column families of every key encoding agree with RocksDB's") {
    var operations = 0
    for (seed <- 1 to Draws.of(8)) withClue(s"seed $seed: ") {
      operations += new Run(seed.toLong).agree()
    }
    info(s"$operations operations on each provider")
  }

  final private class Run(seed: Long) {
    private val random = new Random(seed)
    private val setups = Subjects.map(_ => Providers.setup())
    private var providers = open()
    private var version = 0L
    private var operations = 0
    // RocksDB does not count the keys of a deleted range.
    private var isCounted = true

    def agree(): Int = {
      for (_ <- 0 until 15) {
        epoch()
        if (random.nextInt(4) == 0) {
          providers.foreach(_.close())
          providers = open()
        }
        if (random.nextInt(4) == 0) providers.foreach(_.doMaintenance())
      }
      providers.foreach(_.close())
      operations
    }

    private def open(): Seq[StateStoreProvider] =
      setups.zip(Subjects).map { case (setup, name) =>
        setup.openWith(name, useColumnFamilies = true)
      }

    private def epoch(): Unit = {
      val stores = providers.map(_.getStore(version))
      // Like Spark, creates all families at the start of each epoch.
      for (family <- Families; store <- stores) create(store, family)
      for (_ <- 0 until 60) operation(stores, Families(random.nextInt(Families.size)))
      for (family <- Families) verify(stores, family)
      if (random.nextInt(5) == 0) stores.foreach(_.abort())
      else {
        stores.foreach(_.commit())
        if (isCounted) same(stores)(_.metrics.numKeys)
        version += 1
        readBack()
      }
    }

    private def readBack(): Unit = {
      val stores = providers.map(_.getReadStore(version))
      try for (family <- Families) verify(stores, family)
      finally stores.foreach(_.release())
    }

    private def create(store: StateStore, family: Family): Unit = store.createColFamilyIfAbsent(
      family.name,
      family.keySchema,
      ValueSchema,
      family.spec,
      family.hasLists,
      isInternal = family.name.startsWith("$")
    )

    private def operation(stores: Seq[StateStore], family: Family): Any = {
      operations += 1
      val key = family.key(random)
      val name = family.name
      def values = Array.fill(1 + random.nextInt(3))(value(random.nextInt(100)))
      random.nextInt(12) match {
        case 0 | 1 | 2 if !family.hasLists =>
          val row = value(random.nextInt(100))
          same(stores)(_.put(key, row, name))
        case 0 | 1 | 2 =>
          val row = value(random.nextInt(100))
          same(stores)(_.merge(key, row, name))
        case 3 =>
          val rows = values
          same(stores)(s =>
            if (family.hasLists) s.putList(key, rows, name) else s.put(key, rows(0), name)
          )
        case 4 if family.hasLists =>
          val rows = values
          same(stores)(_.mergeList(key, rows, name))
        case 4 | 5 => same(stores)(_.remove(key, name))
        case 6     => same(stores)(s => text(s.get(key, name)))
        case 7     => same(stores)(_.keyExists(key, name))
        case 8     =>
          // Spark does not define a read of several lists with `multiGet`.
          val keys = Array.fill(3)(family.key(random))
          if (!family.hasLists) same(stores)(_.multiGet(keys, name).map(text).toSeq)
        case 9 if family.hasLists =>
          same(stores)(_.valuesIterator(key, name).map(text).toSeq)
        case 9  => same(stores)(_.valuesIterator(key, name).map(text).toSeq)
        case 10 => scan(stores, family)
        case _  =>
          if (family.isRanged && VersionedStores.HaveRanges && random.nextInt(4) == 0) {
            val other = family.key(random)
            // RocksDB reports an error for a range that ends before it begins.
            if (family.isBefore(key, other)) {
              isCounted = false
              same(stores)(_.deleteRange(key, other, name))
            }
          } else if (random.nextInt(20) == 0 && name == "dropped") {
            same(stores)(_.removeColFamilyIfExists(name))
            same(stores)(_.get(key, name))
            stores.foreach(create(_, family))
          }
      }
    }

    private def scan(stores: Seq[StateStore], family: Family): Any = {
      val name = family.name
      family.prefix(random).foreach { prefix =>
        same(stores)(s => rows(s.prefixScan(prefix, name)).toSet)
        if (family.hasLists && VersionedStores.HaveRanges) {
          same(stores)(s => rows(s.prefixScanWithMultiValues(prefix, name)).sorted)
        }
      }
      if ((family.isRanged || family.isTimed) && VersionedStores.HaveRanges) {
        val keys = Seq.fill(2)(family.key(random)).sortWith(family.isBefore)
        val (from, to) = (Some(keys.head), Some(keys.last))
        val ends = Seq(None -> None, from -> None, None -> to, from -> to)
        for ((start, end) <- ends if family.scansBetween(start, end)) {
          same(stores)(s => inOrder(family, s.rangeScan(start, end, name)))
          if (family.hasLists) {
            same(stores)(s => inOrder(family, s.rangeScanWithMultiValues(start, end, name)))
          }
        }
      }
      if (family.isRanged) {
        val prefix = family.prefix(random).get
        same(stores) { s =>
          TestedSpark.reusableIterator(s, name).map { iterator =>
            val all = inOrder(family, iterator)
            iterator.restartFrom(prefix)
            val rest = inOrder(family, iterator)
            iterator.close()
            (all, rest)
          }
        }
      }
    }

    private def verify(stores: Seq[ReadStateStore], family: Family): Any = {
      same(stores)(s => all(family, s.iterator(family.name)))
      if (family.hasLists && VersionedStores.HaveRanges) {
        same(stores)(s => all(family, s.iteratorWithMultiValues(family.name)))
      }
    }

    /** Checks that both return the same result, or both refuse; error messages may differ. */
    private def same[S <: ReadStateStore](stores: Seq[S])(answer: S => Any): Assertion = {
      val answers = stores.map(store => Try(answer(store)))
      answers match {
        case Seq(Success(a), Success(b)) => assert(a == b)
        case Seq(Failure(_), Failure(_)) => succeed
        case Seq(a, b)                   =>
          throw new AssertionError(s"$a\nis not\n$b", a.failed.getOrElse(b.failed.get))
        case other => throw new AssertionError(s"$other")
      }
    }
  }
}

object FamiliesDifferentialSuite {
  private val State = "org.apache.spark.sql.execution.streaming.state"
  private val Subjects =
    Seq("io.cleancut.CleancutStateStoreProvider", s"$State.RocksDBStateStoreProvider")

  private val ValueSchema = StructType(
    Seq(StructField("v", LongType), StructField("s", StringType))
  )
  private val toValue = UnsafeProjection.create(ValueSchema)

  private def value(number: Int): UnsafeRow =
    toValue(InternalRow(number.toLong, UTF8String.fromString("x" * (number % 9)))).copy()

  private def text(row: UnsafeRow): String = if (row == null) "null" else row.toString

  private def rows(pairs: Iterator[UnsafeRowPair]): Seq[String] =
    pairs.map(pair => s"${text(pair.key)} ${text(pair.value)}").toSeq

  /** All rows of a family, in order if Spark relies on an order. */
  private def all(family: Family, pairs: Iterator[UnsafeRowPair]): Any =
    if (family.hasTotalOrder) inOrder(family, pairs) else rows(pairs).sorted

  /** The positions in order with their rows; rows with one position have no order. */
  private def inOrder(
      family: Family,
      pairs: Iterator[UnsafeRowPair]
  ): Seq[(String, Set[String])] = {
    val rows = pairs
      .map(pair => family.columns(pair.key) -> s"${text(pair.key)} ${text(pair.value)}")
      .toSeq
    val positions = rows.map(_._1)
    assert(
      positions.distinct.size == positions.iterator
        .sliding(2)
        .count(p => p.distinct.size > 1) + Math.min(positions.size, 1)
    )
    positions.distinct.map(p => p -> rows.filter(_._1 == p).map(_._2).toSet)
  }

  /** A family and the generator of its keys. */
  private case class Family(
      name: String,
      keySchema: StructType,
      spec: KeyStateEncoderSpec,
      hasLists: Boolean = false
  ) {
    private val project = UnsafeProjection.create(spec.keySchema)
    def isRanged: Boolean = spec.isInstanceOf[RangeKeyScanStateEncoderSpec]

    /**
     * Whether all keys have an order. A time in last position orders only keys with equal other
     * columns.
     */
    def hasTotalOrder: Boolean = isRanged || name == VersionedStores.TimeFirst

    def isTimed: Boolean = TimedKeys.is(spec)

    def key(random: Random): UnsafeRow = project(
      InternalRow.fromSeq(spec.keySchema.fields.toSeq.map(f => field(f, random)))
    ).copy()

    private def field(field: StructField, random: Random): Any =
      if (field.nullable && random.nextInt(8) == 0) null
      else
        field.dataType match {
          case LongType =>
            Seq(-3L, -1L, 0L, 1L, 2L, 1000L, Long.MaxValue, Long.MinValue)(random.nextInt(8))
          case IntegerType => random.nextInt(7) - 3
          case DoubleType  =>
            Seq(-1.5, -0.5, 0.0, 0.25, 1e300, Double.NegativeInfinity, Double.NaN)(
              random.nextInt(7)
            )
          case ByteType => (random.nextInt(5) - 2).toByte
          case _        =>
            UTF8String.fromString(Seq("", "a", "b", "long text here")(random.nextInt(4)))
        }

    /** A random row for a prefix scan. */
    def prefix(random: Random): Option[UnsafeRow] = spec match {
      case p: PrefixKeyScanStateEncoderSpec => Some(take(key(random), 0 until p.numColsPrefixKey))
      case r: RangeKeyScanStateEncoderSpec  => Some(take(key(random), r.orderingOrdinals))
      case _ => VersionedStores.beforeTime(spec).map(count => take(key(random), 0 until count))
    }

    private def take(row: UnsafeRow, ordinals: Seq[Int]): UnsafeRow = {
      val schema = StructType(ordinals.map(spec.keySchema(_)))
      val values = ordinals.map(i => row.get(i, spec.keySchema(i).dataType))
      UnsafeProjection.create(schema)(InternalRow.fromSeq(values)).copy()
    }

    /** The ordering columns, as text. */
    def columns(row: UnsafeRow): String = spec match {
      case r: RangeKeyScanStateEncoderSpec =>
        r.orderingOrdinals.map(i => row.get(i, spec.keySchema(i).dataType)).mkString(",")
      case _ if name == VersionedStores.TimeFirst => row.getLong(row.numFields - 1).toString
      case _                                      => text(row)
    }

    /** The order of two keys in RocksDB. */
    def isBefore(a: UnsafeRow, b: UnsafeRow): Boolean = {
      val encoder = spec.toEncoder(new UnsafeRowDataEncoder(spec, ValueSchema), false)
      java.util.Arrays.compareUnsigned(encoder.encodeKey(a), encoder.encodeKey(b)) < 0
    }

    /**
     * Whether a scan is defined by both. With a time in last position, only scans within one key
     * are.
     */
    def scansBetween(start: Option[UnsafeRow], end: Option[UnsafeRow]): Boolean =
      VersionedStores.beforeTime(spec).forall { count =>
        val keys = (start ++ end).map(row => text(take(row, 0 until count))).toSet
        start.isDefined && end.isDefined && keys.size == 1
      }
  }

  private def struct(fields: (String, DataType, Boolean)*) =
    StructType(fields.map { case (name, dataType, nullable) =>
      StructField(name, dataType, nullable)
    })

  private val Plain = struct(("k", LongType, true), ("s", StringType, true))
  private val Timed =
    struct(("k", LongType, true), ("s", StringType, true), ("__event_time", LongType, false))
  private val Ranged = struct(("t", LongType, false), ("k", IntegerType, true))
  private val RangedOfTwo = Ranged.add("s", StringType, nullable = true)
  private val Mixed =
    struct(
      ("s", StringType, true),
      ("d", DoubleType, true),
      ("b", ByteType, false),
      ("t", LongType, true)
    )

  private val Families = Seq(
    Family("plain", Plain, NoPrefixKeyStateEncoderSpec(Plain)),
    Family("$internal", Plain, NoPrefixKeyStateEncoderSpec(Plain)),
    Family("lists", Plain, NoPrefixKeyStateEncoderSpec(Plain), hasLists = true),
    Family("dropped", Plain, NoPrefixKeyStateEncoderSpec(Plain)),
    Family("prefix", Plain, PrefixKeyScanStateEncoderSpec(Plain, 1)),
    Family("range", Ranged, RangeKeyScanStateEncoderSpec(Ranged, Seq(0))),
    // RocksDB confuses the columns if all of them are ordered, but not in schema order.
    Family("range of two", RangedOfTwo, RangeKeyScanStateEncoderSpec(RangedOfTwo, Seq(1, 0))),
    Family("range of three", Mixed, RangeKeyScanStateEncoderSpec(Mixed, Seq(3, 1, 2)))
  ) ++ VersionedStores.timed(Timed).map { case (name, spec) =>
    Family(name, Plain, spec, hasLists = true)
  }
}
