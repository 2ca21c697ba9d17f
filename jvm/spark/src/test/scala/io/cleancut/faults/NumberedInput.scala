package io.cleancut.faults

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.Murmur3HashFunction
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{Column, DataFrame}

/**
 * Files of rows that are numbered within their key, in order, from 0. So the count, the greatest
 * number and the sum of numbers of a key show whether its state has exactly the first rows. * * One
 * row of each file is so large that its frame is uploaded in parts. Another row is so large that
 * its executor packs the frame.
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
    // The source orders files by time.
    Files.setLastModifiedTime(file, FileTime.fromMillis(FirstMs + files * 1000L))
    files += 1
  }

  /** The number of rows of each key. */
  def counts: Map[Long, Long] = rows.toMap
}

object NumberedInput {
  val Schema = "key long, number long, bytes int"
  private val Keys = 0L until 8L
  private val RowsPerFile = 3
  private val FirstMs = 1700000000000L

  /** Shuffle partitions: one has a frame in parts, one a frame for the packer, and one neither. */
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
