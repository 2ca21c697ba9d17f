package io.cleancut.e2e

import java.nio.file.Path

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types.StructType

/** Reads the newest state in a checkpoint through Spark's own reader. */
object StoredState {
  private val EventTime = "__event_time"
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
    val stores = spark.read
      .format("state-metadata")
      .load(root.toString)
      .select("operatorId", "operatorName", "stateStoreName")
      .collect()
    stores.flatMap(parts(spark, root, _, shown)).toMap
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
