package io.cleancut.s3a

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskStart}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.{col, count, sum}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, StreamingQueryProgress}

import io.cleancut.testkit.{Fault, FaultProxy, SerialChain, TimedRequest}

/**
 * A state store to restart a query with.
 *
 * @param title
 *   name in tables
 * @param confs
 *   settings in addition to those of the store
 */
final case class RestartSubject(
    name: String,
    title: String,
    store: Subject,
    confs: Map[String, String]
)

/**
 * The figures of the first epoch after a restart.
 *
 * @param rows
 *   number of input rows
 * @param startMs
 *   time from the call that starts the query to the end of its first epoch
 * @param loadMs
 *   sum of the load times of all its stores; None if the provider does not report it
 * @param toTask
 *   longest serial chain of requests before the first task
 * @param toEnd
 *   longest serial chain of requests before the end of the epoch
 * @param trace
 *   a line for each request
 */
final case class RestartFigures(
    rows: Int,
    batchMs: Long,
    startMs: Long,
    loadMs: Option[Long],
    requests: Requests,
    toTask: Int,
    toEnd: Int,
    trace: Seq[String]
)

/**
 * Restarts a query in a process without local state: an aggregation over many keys, with a snapshot
 * of each store and nine deltas after it, accessed through the proxy of an S3 server.
 */
final class RestartRun(
    proxy: FaultProxy,
    restarted: RestartSubject,
    keys: Int,
    partitions: Int,
    delayMs: Int
) {
  import RestartRun._

  private val name = s"restart-${restarted.name}"
  private val location = s"${restarted.store.scheme}://${VersityServer.Bucket}/$name"

  /** The first epochs of restarts, one for each number of rows. */
  def figures(rows: Seq[Int]): Seq[RestartFigures] = {
    proxy.reset()
    fill()
    proxy.harm(Fault.Delay(delayMs.toLong), times = Int.MaxValue)(_ => true)
    val counter = new RequestCounter(proxy)
    rows.map(restart(_, counter))
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

  private def restart(rows: Int, counter: RequestCounter): RestartFigures =
    inSession(Unmaintained) { spark =>
      val task = new FirstTask
      spark.sparkContext.addSparkListener(task)
      val before = counter.now
      val beginNs = System.nanoTime()
      val query = start(spark, rows)
      try {
        val epoch = awaited(query, 1)
        val endNs = System.nanoTime()
        val requests = proxy.timedRequests.filter(_.beginNs >= beginNs)
        val metrics = epoch.stateOperators.head.customMetrics
        RestartFigures(
          rows,
          epoch.durationMs.get("triggerExecution"),
          TimeUnit.NANOSECONDS.toMillis(endNs - beginNs),
          LoadTimes.find(metrics.containsKey).map(metrics.get(_).longValue),
          counter.now - before,
          SerialChain.longest(requests, task.launchNs).size,
          SerialChain.longest(requests, endNs).size,
          trace(requests, beginNs, task.launchNs, endNs)
        )
      } finally query.stop()
    }

  /** A line for each request; those of the longest chain are marked. */
  private def trace(
      requests: Seq[TimedRequest],
      beginNs: Long,
      taskNs: Long,
      endNs: Long
  ): Seq[String] = {
    val chain = SerialChain.longest(requests, endNs)
    def millis(ns: Long) = f"${TimeUnit.NANOSECONDS.toMillis(ns - beginNs)}%6d"
    val lines = requests.map { one =>
      val mark = if (chain.exists(_ eq one)) "*" else " "
      one.beginNs -> s"${millis(one.beginNs)} ${millis(one.endNs)} $mark ${one.request.first}"
    }
    (lines :+ (taskNs -> s"${millis(taskNs)}        - first task")).sortBy(_._1).map(_._2)
  }

  private def running[A](rows: Int, settings: Map[String, String])(body: StreamingQuery => A): A =
    inSession(settings) { spark =>
      val query = start(spark, rows)
      try body(query)
      finally query.stop()
    }

  private def inSession[A](settings: Map[String, String])(body: SparkSession => A): A =
    BucketQuery.inSession(
      restarted.store.confs(proxy.endpoint) ++ restarted.confs ++ settings,
      Slots,
      partitions
    )(body)

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

/** Remembers the launch of the first task. */
final private class FirstTask extends SparkListener {
  private val launched = new AtomicLong(Long.MaxValue)

  /** By `System.nanoTime`. */
  def launchNs: Long = launched.get

  override def onTaskStart(task: SparkListenerTaskStart): Unit = {
    // The event comes later than the launch.
    val ageMs = System.currentTimeMillis() - task.taskInfo.launchTime
    val launchNs = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(ageMs)
    launched.compareAndSet(Long.MaxValue, launchNs)
    ()
  }
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
