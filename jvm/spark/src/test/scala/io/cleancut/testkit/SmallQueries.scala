package io.cleancut.testkit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.count
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.{CleancutCheckpointFileManager, CleancutExtensions, CleancutStateStoreProvider}

/**
 * Sessions for queries with few rows per epoch, without costs that are only worthwhile for many
 * rows.
 */
object SmallQueries {

  /** The configuration of these sessions, also for drivers in other processes. */
  val Settings: Map[String, String] = Map(
    "spark.ui.enabled" -> "false",
    "spark.sql.shuffle.partitions" -> "3",
    "spark.sql.session.timeZone" -> "UTC",
    // Code generation costs more than the few rows of an epoch.
    "spark.sql.codegen.wholeStage" -> "false",
    "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
    // Caches generated code for all queries of a JVM; the default is too small.
    "spark.sql.codegen.cache.maxEntries" -> "5000",
    // The UI is not used, and sorts its executions repeatedly.
    "spark.sql.ui.retainedExecutions" -> "10"
  )

  def builder(master: String): SparkSession.Builder =
    Settings.foldLeft(SparkSession.builder().master(master)) { case (made, (key, value)) =>
      made.config(key, value)
    }

  /** The configuration for checkpoints in a bucket. */
  def inBucket(endpoint: String): Map[String, String] = Map(
    s"$State.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    "spark.sql.streaming.checkpointFileManagerClass" ->
      classOf[CleancutCheckpointFileManager].getName,
    "spark.sql.extensions" -> classOf[CleancutExtensions].getName,
    // Bases and garbage collection make requests at arbitrary times.
    s"$State.maintenanceInterval" -> "1h",
    s"$State.cleancut.s3.endpoint" -> endpoint,
    s"$State.cleancut.s3.region" -> "us-east-1"
  )

  private val State = "spark.sql.streaming.stateStore"

  /** A session in this JVM. */
  def session(
      master: String
  )(change: SparkSession.Builder => SparkSession.Builder): SparkSession = {
    val spark = change(builder(master)).getOrCreate()
    removeDefaults(spark)
    spark
  }

  /**
   * Counts its input by key.
   *
   * @param sink
   *   receives the results of each epoch; by default they are only computed
   */
  def counting(
      input: MemoryStream[Long],
      checkpoint: String,
      sink: Array[Row] => Unit = _ => ()
  ): StreamingQuery = input
    .toDS()
    .toDF("key")
    .groupBy("key")
    .agg(count("*"))
    .writeStream
    .outputMode("update")
    .option("checkpointLocation", checkpoint)
    .foreachBatch((batch: DataFrame, _: Long) => sink(batch.collect()))
    .start()

  /**
   * Removes Hadoop's default settings except those of file systems. Spark sends about a thousand
   * settings with each stateful operator of each epoch, which is a fifth of the work of a small
   * epoch.
   */
  private def removeDefaults(spark: SparkSession): Unit = {
    val conf = spark.sparkContext.hadoopConfiguration
    val kept = conf.iterator.asScala
      .map(entry => entry.getKey -> entry.getValue)
      .filter { case (key, _) => isNeeded(key, conf.getPropertySources(key).last) }
      .toMap
    conf.clear()
    kept.foreach { case (key, value) => conf.set(key, value) }
  }

  private def isNeeded(key: String, source: String): Boolean =
    !source.endsWith("-default.xml") || key.startsWith("fs.file.") ||
      key.startsWith("fs.AbstractFileSystem.") || key.startsWith("hadoop.security.")
}
