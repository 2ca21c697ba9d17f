package io.cleancut.testkit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession

import io.cleancut.{CleancutCheckpointFileManager, CleancutExtensions, CleancutStateStoreProvider}

/** Sessions whose queries have a few rows in an epoch, so that all else is most of their time. */
object SmallQueries {

  /** What such a session is configured with, wherever its driver is. */
  val Settings: Map[String, String] = Map(
    "spark.ui.enabled" -> "false",
    "spark.sql.shuffle.partitions" -> "3",
    "spark.sql.session.timeZone" -> "UTC",
    // Compiling costs more than the few rows of an epoch.
    "spark.sql.codegen.wholeStage" -> "false",
    "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
    // What is compiled all the same is kept for all queries of a JVM; by default for a few.
    "spark.sql.codegen.cache.maxEntries" -> "5000",
    // What nobody looks at is sorted again and again.
    "spark.sql.ui.retainedExecutions" -> "10"
  )

  def builder(master: String): SparkSession.Builder =
    Settings.foldLeft(SparkSession.builder().master(master)) { case (made, (key, value)) =>
      made.config(key, value)
    }

  /** What has a session keep its state and its checkpoints in a bucket. */
  def inBucket(endpoint: String): Map[String, String] = Map(
    s"$State.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    "spark.sql.streaming.checkpointFileManagerClass" ->
      classOf[CleancutCheckpointFileManager].getName,
    "spark.sql.extensions" -> classOf[CleancutExtensions].getName,
    // Bases and sweeps are requests too, and come when they like.
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
    takeOutDefaults(spark)
    spark
  }

  /**
   * All that Hadoop has a default for, but the names of file systems: Spark sends the thousand of
   * them with each stateful operator of each epoch, which is a fifth of the work of a small one.
   */
  private def takeOutDefaults(spark: SparkSession): Unit = {
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
