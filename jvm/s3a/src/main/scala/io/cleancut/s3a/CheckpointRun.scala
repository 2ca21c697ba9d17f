package io.cleancut.s3a

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryProgress}

import io.cleancut.bench.queries.BenchQuery
import io.cleancut.testkit.{Fault, FaultProxy}

/**
 * What one epoch took.
 *
 * @param requests
 *   from the end of the sink of the epoch before to that of this one
 * @param commitMs
 *   the commits of all stores of one partition, mean of the partitions
 * @param gateMs
 *   from the end of the sink until Spark's commit log has the epoch
 * @param batchMs
 *   all of it
 */
final case class EpochFigures(
    epoch: Long,
    requests: Requests,
    commitMs: Long,
    gateMs: Long,
    batchMs: Long
)

/**
 * How a query is run.
 *
 * @param slots
 *   tasks that run at a time
 * @param warmUps
 *   epochs before those that count
 * @param epochs
 *   those that count
 * @param delayMs
 *   that each request takes longer than the server does
 */
final case class RunSize(partitions: Int, slots: Int, warmUps: Int, epochs: Int, delayMs: Int)

/** One query with its checkpoint behind the proxy of an S3 server. */
final class CheckpointRun(proxy: FaultProxy, query: BenchQuery, subject: Subject, size: RunSize) {
  import CheckpointRun._

  /** The figures of each epoch that counts, which are shown when it is done. */
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
      val found = (size.warmUps until size.warmUps + size.epochs).map { index =>
        val of = BucketQuery.awaited(running, query.name, index, PatienceNs)
        val figures = epoch(of, sunk.get(of.batchId) - sunk.get(of.batchId - 1))
        show(figures)
        figures
      }
      running.stop()
      found
    }
  }

  private def epoch(of: StreamingQueryProgress, requests: Requests) = EpochFigures(
    of.batchId,
    requests,
    of.stateOperators.map(_.commitTimeMs).sum / size.partitions,
    of.durationMs.get("commitOffsets"),
    of.durationMs.get("triggerExecution")
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

  // Bases, snapshots and clean-up come after the run, so that they count for no epoch.
  private val Unmaintained = Map("spark.sql.streaming.stateStore.maintenanceInterval" -> "1h")
}
