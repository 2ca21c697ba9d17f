package io.cleancut.e2e

import java.nio.file.{Files, Path}

import org.apache.commons.io.FileUtils

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.StructType

/** Reads the latest state of a checkpoint with Spark's state reader. */
object StoredState {
  private val EventTime = "__event_time"
  private val NumPartitions = """"spark\.sql\.shuffle\.partitions":"(\d+)"""".r
  private val LedgerVariables = Seq("total", "recent", "counts")

  /**
   * The sorted rows of all stores by operator and store, join side or state variable. Each row has
   * its partition.
   */
  def read(spark: SparkSession, root: Path): Map[String, Seq[String]] = read(spark, root, identity)

  /** The rows without their partitions, to compare queries with different numbers of partitions. */
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
   * Deletes the directories of partitions that the last epoch does not have. The state reader of
   * this Spark version takes each directory for a partition.
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
   * The rows without the times in the keys of a join of format 4, which Spark reads wrongly from
   * RocksDB.
   */
  private def comparable(rows: DataFrame): DataFrame = rows.schema("key").dataType match {
    case key: StructType if key.fieldNames.contains(EventTime) =>
      rows.withColumn("key", col("key").dropFields(EventTime))
    case _ => rows
  }
}
