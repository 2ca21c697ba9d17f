package io.cleancut.bench

import java.nio.file.{Files, Path}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DoubleType, LongType, StructField, StructType}

/** A provider under measurement, as Spark configures it, with an own directory. */
final case class Subject(
    provider: String,
    confs: Map[String, String],
    hadoop: Map[String, String]
) {

  /** A provider on `directory`, as a fresh executor would open it. */
  def open(directory: Path): StateStoreProvider = {
    val sqlConf = new SQLConf
    confs.foreach { case (key, value) => sqlConf.setConfString(key, value) }
    sqlConf.setConfString("spark.sql.streaming.stateStore.providerClass", provider)
    val hadoopConf = new Configuration
    hadoop.foreach { case (key, value) => hadoopConf.set(key, value) }
    hadoopConf.set("sql.streaming.runId", UUID.randomUUID().toString)
    val opened = StateStoreProvider.create(provider)
    opened.init(
      StateStoreId(directory.resolve("state").toString, 0L, 0, StateStoreId.DEFAULT_STORE_NAME),
      Rows.KeySchema,
      Rows.ValueSchema,
      NoPrefixKeyStateEncoderSpec(Rows.KeySchema),
      useColumnFamilies = false,
      StateStoreConf(sqlConf),
      hadoopConf
    )
    opened
  }
}

object Subject {

  /** Bytes of all files below a directory. */
  def bytesBelow(directory: Path): Long = {
    val files = Files.walk(directory)
    try files.filter(Files.isRegularFile(_)).mapToLong(Files.size(_)).sum()
    finally files.close()
  }
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

  def key(row: UnsafeRow, id: Long): UnsafeRow = {
    row.setLong(0, id)
    row.setLong(1, id * 31)
    row
  }

  def value(row: UnsafeRow, count: Long): UnsafeRow = {
    row.setLong(0, count)
    row.setDouble(1, count * 0.5)
    row
  }

  /** Bytes of one key and its value. */
  val PairBytes: Long = 2L * RowBytes
}
