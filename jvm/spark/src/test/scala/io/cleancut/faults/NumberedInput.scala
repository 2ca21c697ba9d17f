package io.cleancut.faults

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.Murmur3HashFunction
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{Column, DataFrame}

/**
 * Files of rows that are numbered within their keys, in order, from 0. So a count, a greatest
 * number and a sum of numbers tell which rows have gone into a state: none but the first so many.
 *
 * One row of each file is so large that its frame goes into an object in parts, and another so
 * large that its executor packs the frame.
 */
final class NumberedInput(directory: Path) {
  import NumberedInput._

  private val rows = mutable.Map.empty[Long, Long].withDefaultValue(0L)
  private var files = 0

  def add(): Unit = {
    val lines = for (key <- Keys; _ <- 0 until RowsPerFile) yield {
      val number = rows(key)
      rows(key) = number + 1
      val bytes = if (number % RowsPerFile == 0) LargeBytes.getOrElse(key, 0) else 0
      s"""{"key":$key,"number":$number,"bytes":$bytes}"""
    }
    val file = directory.resolve(f"$files%05d.json")
    Files.writeString(file, lines.mkString("\n"))
    // The source goes by the time.
    Files.setLastModifiedTime(file, FileTime.fromMillis(FirstMs + files * 1000L))
    files += 1
  }

  /** How many rows each key has. */
  def counts: Map[Long, Long] = rows.toMap
}

object NumberedInput {
  val Schema = "key long, number long, bytes int"
  private val Keys = 0L until 8L
  private val RowsPerFile = 3
  private val FirstMs = 1700000000000L

  /**
   * Of the shuffle: one with a frame in parts, one with one for the packer, and one with neither.
   */
  val Partitions = 3
  private val LargeBytes: Map[Long, Int] = {
    def partitionOf(key: Long) =
      Math.floorMod(Murmur3HashFunction.hash(key, LongType, 42L).toInt, Partitions)
    val heads = Keys.groupBy(partitionOf).toSeq.sortBy(_._1).map(_._2.head)
    require(heads.size == Partitions, s"keys are in ${heads.size} partitions")
    Map(heads(0) -> 300000, heads(1) -> 9000000)
  }

  private val payload = udf { (seed: Long, bytes: Int) =>
    if (bytes == 0) null
    else {
      val body = new Array[Byte](bytes)
      new scala.util.Random(seed).nextBytes(body)
      body
    }
  }

  /** Key, rows, the greatest number, the sum of numbers, and a digest of the greatest payload. */
  def totals(input: DataFrame): DataFrame = input
    .withColumn("payload", payload(col("key") + col("number") * 100, col("bytes")))
    .groupBy("key")
    .agg(
      count("*").as("rows"),
      max("number").as("last"),
      sum("number").as("sum"),
      max("payload").as("payload")
    )
    .withColumn("payload", sha1(col("payload")): Column)
}
