package io.cleancut.s3a

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryProgress}

import io.cleancut.bench.queries.BenchQuery
import io.cleancut.testkit.{Fault, FaultProxy}

/**
 * The figures of one epoch.
 *
 * @param requests
 *   requests from the end of the previous epoch's sink to the end of this one's
 * @param commitMs
 *   commits of all stores of one partition, mean of the partitions
 * @param gateMs
 *   time from the end of the sink until Spark's commit log has the epoch
 * @param batchMs
 *   time of the complete epoch
 */
final case class EpochFigures(
    epoch: Long,
    requests: Requests,
    commitMs: Long,
    gateMs: Long,
    batchMs: Long
)

/**
 * The size of a run.
 *
 * @param slots
 *   concurrent tasks
 * @param warmUps
 *   epochs before the measurement
 * @param epochs
 *   measured epochs
 * @param delayMs
 *   additional latency of each request
 */
final case class RunSize(partitions: Int, slots: Int, warmUps: Int, epochs: Int, delayMs: Int)

/** One query with its checkpoint on an S3 server, accessed through a proxy. */
final class CheckpointRun(proxy: FaultProxy, query: BenchQuery, subject: Subject, size: RunSize) {
  import CheckpointRun._

  /** The figures of each measured epoch, which are shown when it is done. */
  def figures(show: EpochFigures => Unit): Seq[EpochFigures] = {
    proxy.reset()
    proxy.harm(Fault.Delay(size.delayMs.toLong), times = Int.MaxValue)(_ => true)
    val counter = new RequestCounter(proxy)
    val sunk = new ConcurrentHashMap[Long, Requests]
    val confs = Unmaintained ++ query.confs ++ subject.confs(proxy.endpoint)
    BucketQuery.inSession(confs, size.slots, size.partitions) { spark =>
      val running = start(spark) { (batch, epoch) =>
        subject.sink(batch, epoch)
        sunk.put(epoch, counter.now)
        ()
      }
      val figures = (size.warmUps until size.warmUps + size.epochs).map { index =>
        val progress = BucketQuery.awaited(running, query.name, index, PatienceNs)
        val result = epoch(progress, sunk.get(progress.batchId) - sunk.get(progress.batchId - 1))
        show(result)
        result
      }
      running.stop()
      figures
    }
  }

  private def epoch(progress: StreamingQueryProgress, requests: Requests) = EpochFigures(
    progress.batchId,
    requests,
    progress.stateOperators.map(_.commitTimeMs).sum / size.partitions,
    progress.durationMs.get("commitOffsets"),
    progress.durationMs.get("triggerExecution")
  )

  private def start(spark: SparkSession)(sink: (DataFrame, Long) => Unit): StreamingQuery = {
    val name = s"${subject.name}-${query.name}-${size.partitions}"
    query
      .build(query.input(spark))
      .writeStream
      .outputMode(query.mode)
      .option("checkpointLocation", s"${subject.scheme}://${VersityServer.Bucket}/$name")
      .foreachBatch(sink)
      .start()
  }
}

object CheckpointRun {
  private val PatienceNs = TimeUnit.MINUTES.toNanos(5)

  // Snapshots and cleanup run after the measurement, so that they count for no epoch.
  private val Unmaintained = Map("spark.sql.streaming.stateStore.maintenanceInterval" -> "1h")
}
