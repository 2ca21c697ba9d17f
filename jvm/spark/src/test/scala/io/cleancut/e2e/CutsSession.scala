package io.cleancut.e2e

import org.scalatest.{BeforeAndAfterAll, Suite}

import org.apache.spark.sql.SparkSession

import io.cleancut.{CleancutCheckpointFileManager, CleancutExtensions, CleancutStateStoreProvider}
import io.cleancut.conf.Keys

/** A session whose queries are committed by cuts on the local disk. */
trait CutsSession extends BeforeAndAfterAll { this: Suite =>
  protected def master: String

  protected def partitions: Int

  protected lazy val spark: SparkSession = SparkSession
    .builder()
    .master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", partitions.toString)
    .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
    .config(
      "spark.sql.streaming.stateStore.providerClass",
      classOf[CleancutStateStoreProvider].getName
    )
    .config(
      "spark.sql.streaming.checkpointFileManagerClass",
      classOf[CleancutCheckpointFileManager].getName
    )
    .config(Keys.Cuts.name, "true")
    .getOrCreate()

  override protected def afterAll(): Unit = spark.stop()
}
