package io.cleancut.e2e

import java.nio.file.{Files, Path}

import org.apache.commons.io.FileUtils

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.StructType

/** Reads the newest state in a checkpoint through Spark's own reader. */
object StoredState {
  private val EventTime = "__event_time"
  private val NumPartitions = """"spark\.sql\.shuffle\.partitions":"(\d+)"""".r
  private val LedgerVariables = Seq("total", "recent", "counts")

  /**
   * The rows of all stores, sorted, by operator and store, side of a join or state variable; each
   * with its partition.
   */
  def read(spark: SparkSession, root: Path): Map[String, Seq[String]] = read(spark, root, identity)

  /** Without the partitions of the rows, for queries that differ in how many they have. */
  def readUndivided(spark: SparkSession, root: Path): Map[String, Seq[String]] =
    read(spark, root, _.drop("partition_id"))

  private def read(
      spark: SparkSession,
      root: Path,
      shown: DataFrame => DataFrame
  ): Map[String, Seq[String]] = {
    if (!TestedSpark.ReaderKnowsPartitions) removeRetired(root)
    val stores = spark.read
      .format("state-metadata")
      .load(root.toString)
      .select("operatorId", "operatorName", "stateStoreName")
      .collect()
    stores.flatMap(parts(spark, root, _, shown)).toMap
  }

  /**
   * The directories of partitions that the last epoch has no more, each of which the reader of this
   * line of Spark would take for one.
   */
  private def removeRetired(root: Path): Unit = {
    def numbersIn(path: Path) = path.toFile.list.flatMap(_.toIntOption)
    val offsets = root.resolve("offsets")
    val conf = Files.readString(offsets.resolve(numbersIn(offsets).max.toString))
    val partitions = NumPartitions.findFirstMatchIn(conf).get.group(1).toInt
    for {
      operator <- numbersIn(root.resolve("state"))
      directory = root.resolve(s"state/$operator")
      partition <- numbersIn(directory) if partition >= partitions
    } FileUtils.deleteDirectory(directory.resolve(partition.toString).toFile)
  }

  private def parts(
      spark: SparkSession,
      root: Path,
      store: Row,
      shown: DataFrame => DataFrame
  ): Seq[(String, Seq[String])] = {
    val options = (store.getString(1), store.getString(2)) match {
      // From format 3 on a join has all its state in one store, and only its sides can be read.
      case ("symmetricHashJoin", "default") => Seq("left", "right").map("joinSide" -> _)
      case ("transformWithStateExec", _)    => LedgerVariables.map("stateVarName" -> _)
      case (_, name)                        => Seq("storeName" -> name)
    }
    for ((key, value) <- options) yield {
      val rows = spark.read
        .format("statestore")
        .option("operatorId", store.getLong(0))
        .option(key, value)
        .load(root.toString)
      s"${store.getLong(0)} $value" -> shown(comparable(rows))
        .collect()
        .map(_.toString)
        .sorted
        .toSeq
    }
  }

  /**
   * Without the times in the keys of a join of format 4, which Spark reads wrongly from RocksDB.
   */
  private def comparable(rows: DataFrame): DataFrame = rows.schema("key").dataType match {
    case key: StructType if key.fieldNames.contains(EventTime) =>
      rows.withColumn("key", col("key").dropFields(EventTime))
    case _ => rows
  }
}
