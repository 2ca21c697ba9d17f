package io.cleancut.bench

import java.nio.file.{Files, Path}
import java.util.concurrent.{TimeUnit, TimeoutException}

import org.apache.spark.sql.{Dataset, Encoders, SparkSession}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StreamingQueryException

/**
 * Times one whole query on each provider in turn, in one JVM. Prints one line
 * `provider<TAB>turn<TAB>nanoseconds` for each run: the time of an epoch, the mean over those that
 * are counted.
 *
 * Arguments: name of the query, turns, epochs that are counted.
 */
object QueryBench {
  private val PatienceNs = TimeUnit.MINUTES.toNanos(10)
  private val StartMs = 1700000000000L
  private val EpochMs = 10000L
  // A prime, so that keys that follow each other lie in all partitions.
  private val Scatter = 7919

  def main(args: Array[String]): Unit = {
    val query = BenchQuery.named(args(0))
    val bench = new QueryBench(query, epochs = args(2).toInt)
    try
      for (turn <- -1 until args(1).toInt; provider <- providers(query)) {
        val ns = bench.run(provider)
        // The first turn warms up.
        if (turn >= 0) println(s"${provider.name}\t$turn\t$ns")
      }
    finally bench.close()
    System.exit(0)
  }

  private def providers(query: BenchQuery): Seq[Provider] =
    Seq(Provider.Cleancut) ++ Option.when(query.onHdfs)(Provider.Hdfs) ++ Provider.RocksForQueries
}

final class QueryBench(query: BenchQuery, epochs: Int) {
  import QueryBench._

  private val spark = SparkSession
    .builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.sql.adaptive.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.streaming.stateStore.maintenanceInterval", "10s")
    .config("spark.sql.extensions", "io.cleancut.CleancutExtensions")
    .getOrCreate()

  def close(): Unit = spark.stop()

  /** Nanoseconds of an epoch in which the source has rows. */
  def run(provider: Provider): Long = {
    val session = spark.newSession()
    (query.confs ++ provider.confs).foreach { case (key, value) => session.conf.set(key, value) }
    val directory = Files.createTempDirectory("cleancut-bench")
    try time(session, directory)
    finally {
      StateStore.stop()
      Directories.deleteBelow(directory)
    }
  }

  private def time(session: SparkSession, directory: Path): Long = {
    val running = query
      .build(ticks(session))
      .writeStream
      .format("noop")
      .outputMode(query.mode)
      .option("checkpointLocation", directory.toString)
      .start()
    val wanted = query.fill + epochs
    val until = System.nanoTime() + PatienceNs
    def full = running.recentProgress.filter(_.numInputRows > 0)
    while (full.size < wanted) {
      running.exception.foreach(throw _: StreamingQueryException)
      if (System.nanoTime() > until) throw new TimeoutException(s"${query.name} stands still")
      Thread.sleep(20)
    }
    val counted = full.sortBy(_.batchId).slice(query.fill, wanted)
    running.stop()
    TimeUnit.MILLISECONDS.toNanos(counted.map(_.durationMs.get("triggerExecution").toLong).sum) /
      counted.size
  }

  private def ticks(session: SparkSession): Dataset[Tick] = session.readStream
    .format("rate-micro-batch")
    .option("rowsPerBatch", query.rowsPerEpoch)
    .option("numPartitions", 2)
    .load()
    .select(
      col("value").as("id"),
      expr(s"value div ${query.repeat} * $Scatter % ${query.keys}").as("key"),
      expr(s"timestamp_millis($StartMs + value * $EpochMs div ${query.rowsPerEpoch})").as("at"),
      (col("value") % 100).as("amount")
    )
    .as(Encoders.product[Tick])
}
