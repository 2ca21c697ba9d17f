package io.cleancut.s3a

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.{col, count, sum}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryProgress}

import io.cleancut.testkit.{Fault, FaultProxy}

/**
 * The figures of the first epoch after a restart.
 *
 * @param rows
 *   number of input rows
 * @param loadMs
 *   sum of the load times of all its stores; None if the provider does not report it
 */
final case class RestartFigures(rows: Int, batchMs: Long, loadMs: Option[Long], requests: Requests)

/**
 * Restarts a query in a process without local state: an aggregation over many keys, with a snapshot
 * of each store and nine deltas after it, accessed through the proxy of an S3 server.
 *
 * @param name
 *   name of its checkpoint
 * @param confs
 *   settings in addition to those of the subject
 */
final class RestartRun(
    proxy: FaultProxy,
    name: String,
    subject: Subject,
    confs: Map[String, String],
    keys: Int,
    partitions: Int,
    delayMs: Int
) {
  import RestartRun._

  private val location = s"${subject.scheme}://${VersityServer.Bucket}/$name"

  /** The first epochs of restarts, one for each number of rows. */
  def figures(rows: Seq[Int]): Seq[RestartFigures] = {
    proxy.reset()
    fill()
    proxy.harm(Fault.Delay(delayMs.toLong), times = Int.MaxValue)(_ => true)
    val counter = new RequestCounter(proxy)
    rows.map { count =>
      val before = counter.now
      running(count, Unmaintained)(first(_, count, counter, before))
    }
  }

  // Maintenance creates a snapshot of the filled state, and the deltas follow.
  private def fill(): Unit = {
    running(keys, Maintained) { query =>
      awaited(query, 1)
      Thread.sleep(SnapshotMs)
    }
    running(DeltaRows, Unmaintained)(awaited(_, Deltas))
    ()
  }

  private def first(
      query: StreamingQuery,
      rows: Int,
      counter: RequestCounter,
      before: Requests
  ): RestartFigures = {
    val epoch = awaited(query, 1)
    val requests = counter.now - before
    val metrics = epoch.stateOperators.head.customMetrics
    RestartFigures(
      rows,
      epoch.durationMs.get("triggerExecution"),
      LoadTimes.find(metrics.containsKey).map(metrics.get(_).longValue),
      requests
    )
  }

  private def running[A](rows: Int, settings: Map[String, String])(body: StreamingQuery => A): A = {
    val all = subject.confs(proxy.endpoint) ++ confs ++ settings
    BucketQuery.inSession(all, Slots, partitions) { spark =>
      val query = start(spark, rows)
      try body(query)
      finally query.stop()
    }
  }

  private def start(spark: SparkSession, rows: Int): StreamingQuery = {
    val sunk = new AtomicLong
    spark.readStream
      .format("rate-micro-batch")
      .option("rowsPerBatch", rows.toLong)
      .option("numPartitions", 2)
      .load()
      .select((col("value") % keys).as("key"), (col("value") % 100).as("amount"))
      .groupBy("key")
      .agg(count("*"), sum("amount"))
      .writeStream
      .outputMode(OutputMode.Update())
      .option("checkpointLocation", location)
      .foreachBatch { (batch: DataFrame, _: Long) =>
        sunk.addAndGet(batch.rdd.count())
        ()
      }
      .start()
  }

  /** The last of a number of epochs. */
  private def awaited(query: StreamingQuery, epochs: Int): StreamingQueryProgress =
    BucketQuery.awaited(query, name, epochs - 1, PatienceNs)
}

object RestartRun {
  private val PatienceNs = TimeUnit.MINUTES.toNanos(10)
  private val SnapshotMs = 20000L
  private val Slots = 2
  private val Deltas = 9
  private val DeltaRows = 10000
  private val LoadTimes = Seq("cleancutLoadMs", "rocksdbLoadLatencyMs")

  // A snapshot after each epoch, or none.
  private val State = "spark.sql.streaming.stateStore"
  private val Maintained =
    Map(s"$State.maintenanceInterval" -> "1s", s"$State.minDeltasForSnapshot" -> "1")
  private val Unmaintained =
    Map(s"$State.maintenanceInterval" -> "1h", s"$State.minDeltasForSnapshot" -> "100")
}
