package io.cleancut.bench.queries

import java.nio.file.Files
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders, ForeachWriter, Row}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{OutputMode, TimeMode, Trigger}

import io.cleancut.bench.base.Directories

/**
 * Measures the latency of rows from source to sink in real-time mode: 200 rows a second, each with
 * its send time, which the sink compares with its clock.
 *
 * Arguments: `cleancut` or `rocksdb`, `dedup`, `aggregation` or `transformWithState`, the interval
 * of the trigger in seconds, the number of intervals to measure.
 */
object LatencyBench {
  private val WarmUpSeconds = 20
  private val PauseMs = 5L
  private val Groups = 1000
  private val Percentiles = Seq(50, 95, 99)
  private val numberedEncoder = Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong)

  def main(args: Array[String]): Unit = {
    val spark = session(onCleancut = args(0) == "cleancut")
    val input = LowLatencyMemoryStream.singlePartition[Long](spark)(Encoders.scalaLong)
    val root = Files.createTempDirectory("cleancut-bench")
    val intervalSeconds = args(2).toInt
    val query = stateful(args(1), input.toDF()).writeStream
      .outputMode("update")
      .option("checkpointLocation", root.toString)
      .foreach(Latencies)
      .trigger(Trigger.RealTime(s"$intervalSeconds seconds"))
      .start()
    send(input, WarmUpSeconds)
    Latencies.values.clear()
    send(input, intervalSeconds * args(3).toInt)
    query.stop()
    val sorted = Latencies.values.asScala.toIndexedSeq.sorted
    for (percent <- Percentiles)
      println(
        s"${args(1)}, $intervalSeconds s, p$percent\t0\t${sorted(sorted.size * percent / 100)}"
      )
    Directories.deleteBelow(root)
    System.exit(0)
  }

  private def stateful(kind: String, sent: DataFrame): DataFrame = kind match {
    case "dedup" => sent.dropDuplicates("value").toDF("sent")
    // The newest time of a group is that of the current row.
    case "aggregation" => sent.groupBy(expr(s"value % $Groups")).max("value").toDF("group", "sent")
    case "transformWithState" =>
      sent
        .as(Encoders.scalaLong)
        .groupByKey(_ % Groups)(Encoders.scalaLong)
        .transformWithState(new NumberingProcessor, TimeMode.None(), OutputMode.Update())(
          numberedEncoder
        )
        .toDF("sent", "number")
  }

  private def send(input: LowLatencyMemoryStream[Long], seconds: Int): Unit = {
    val until = System.nanoTime() + seconds * 1000000000L
    while (System.nanoTime() < until) {
      input.addData(System.nanoTime())
      Thread.sleep(PauseMs)
    }
  }

  private def session(onCleancut: Boolean): SparkSession = SparkSession
    .builder()
    .master("local[4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.extensions", "io.cleancut.CleancutExtensions")
    .config("spark.sql.streaming.stateStore.cleancut.realTimeMode", onCleancut.toString)
    // Spark's list of operators for this mode contains only its own class of transformWithState.
    .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    .getOrCreate()
}

/** Latency of each row in nanoseconds. Tasks run in this JVM. */
object Latencies extends ForeachWriter[Row] {
  val values = new ConcurrentLinkedQueue[Long]
  override def open(partitionId: Long, epochId: Long): Boolean = true
  override def process(row: Row): Unit =
    values.add(System.nanoTime() - row.getAs[Long]("sent")): Unit
  override def close(errorOrNull: Throwable): Unit = ()
}
