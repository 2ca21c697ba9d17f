package io.cleancut.bench.stores

import java.nio.file.Path
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DoubleType, LongType, StructField, StructType}

/**
 * A provider under measurement, configured as Spark does.
 *
 * @param confs
 *   settings of the session, or of Hadoop with the prefix `hadoop:`
 * @param encoder
 *   order of the keys
 */
final case class Subject(
    provider: String,
    confs: Map[String, String],
    encoder: KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(Rows.KeySchema)
) {

  /** Opens the provider on `directory`, as a new executor would. */
  def open(directory: Path): StateStoreProvider = {
    val (hadoop, sql) = confs.partition(_._1.startsWith(Subject.Hadoop))
    val sqlConf = new SQLConf
    sql.foreach { case (key, value) => sqlConf.setConfString(key, value) }
    sqlConf.setConfString("spark.sql.streaming.stateStore.providerClass", provider)
    val hadoopConf = new Configuration
    hadoop.foreach { case (key, value) => hadoopConf.set(key.stripPrefix(Subject.Hadoop), value) }
    hadoopConf.set("sql.streaming.runId", UUID.randomUUID().toString)
    val opened = StateStoreProvider.create(provider)
    opened.init(
      StateStoreId(directory.resolve("state").toString, 0L, 0, StateStoreId.DEFAULT_STORE_NAME),
      Rows.KeySchema,
      Rows.ValueSchema,
      encoder,
      useColumnFamilies = false,
      StateStoreConf(sqlConf),
      hadoopConf
    )
    opened
  }
}

object Subject {
  private val Hadoop = "hadoop:"

  /** Parses the provider class and the settings as `key=value`. */
  def parse(className: String, confs: Seq[String]): Subject =
    Subject(className, confs.map(_.split("=", 2)).map(p => p(0) -> p(1)).toMap)
}

/** Rows of two words: a key of (long, long) and a value of (long, double), 24 bytes each. */
object Rows {
  val KeySchema: StructType =
    StructType(Seq(StructField("id", LongType), StructField("part", LongType)))
  val ValueSchema: StructType =
    StructType(Seq(StructField("count", LongType), StructField("sum", DoubleType)))

  private val RowBytes = 24

  def newRow(): UnsafeRow = {
    val row = new UnsafeRow(2)
    row.pointTo(new Array[Byte](RowBytes), RowBytes)
    row
  }

  def key(row: UnsafeRow, id: Long): UnsafeRow = key(row, id, id * 31)

  def key(row: UnsafeRow, id: Long, part: Long): UnsafeRow = {
    row.setLong(0, id)
    row.setLong(1, part)
    row
  }

  def value(row: UnsafeRow, count: Long): UnsafeRow = {
    row.setLong(0, count)
    row.setDouble(1, count * 0.5)
    row
  }

  /** A row of one word, such as the prefix of a key. */
  def prefix(id: Long): UnsafeRow = {
    val row = new UnsafeRow(1)
    row.pointTo(new Array[Byte](16), 16)
    row.setLong(0, id)
    row
  }

  /** Bytes of one key and its value. */
  val PairBytes: Long = 2L * RowBytes
}
