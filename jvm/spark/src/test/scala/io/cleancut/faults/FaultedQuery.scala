package io.cleancut.faults

import java.nio.file.{Files, Path}
import java.util.concurrent.{CompletableFuture, Executors, TimeUnit, TimeoutException}

import scala.util.Try

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  SharedStores
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.CleancutSeal
import io.cleancut.base.Clock
import io.cleancut.coordinator.CutsRuntime
import io.cleancut.objectstore.BucketPath
import io.cleancut.testkit.{Patience, TestDirectory}

/**
 * A stateful query on numbered rows, with one file per epoch, that fails and is restarted. Its
 * coordinator collects garbage after each epoch.
 *
 * @param skips
 *   whether the sink skips a repeated epoch
 * @param seals
 *   whether the sink seals an epoch before it writes
 */
final class FaultedQuery(
    spark: SparkSession,
    val location: String,
    skips: Boolean,
    val seals: Boolean
) extends AutoCloseable {
  import FaultedQuery._

  private val directory: Path = Files.createTempDirectory("cleancut-faults")
  private val background = Executors.newSingleThreadExecutor()
  val input = new NumberedInput(directory)
  val sink = new SinkCheck

  // Its coordinators collect garbage early.
  DriverCuts.runOn(location) {
    CutsRuntime
      .onThreads(_, Clock.System)
      .copy(background = background, sweepEpochs = 1, baseMargin = BaseMargin)
  }

  /** The prefix of its objects in the bucket. */
  def prefix: String = BucketPath.parse(location).prefix

  /** Starts the query and waits until all files are processed; returns its failure, if any. */
  def start(): Option[Throwable] = {
    // Clears what this process remembers, so that it starts as a new process.
    CheckpointLogs.wroteOffsets(location, -1L, "")
    SharedStores.forgetProbes()
    val death = Try(await()).failed.toOption
    StateStore.stop()
    CompletableFuture.runAsync(() => (), background).get(PatienceSeconds, TimeUnit.SECONDS)
    death
  }

  /** The expected rows, from one batch. */
  def batch(): DataFrame =
    NumberedInput.totals(spark.read.schema(NumberedInput.Schema).json(directory.toString))

  override def close(): Unit = {
    background.shutdown()
    TestDirectory.delete(directory)
  }

  private def await(): Unit = {
    val files = spark.readStream.schema(NumberedInput.Schema).option("maxFilesPerTrigger", 1)
    val running = NumberedInput
      .totals(files.json(directory.toString))
      .writeStream
      .outputMode("update")
      .option("checkpointLocation", location)
      .foreachBatch { (batch: DataFrame, epoch: Long) =>
        if (!skips || !sink.has(epoch)) take(batch, epoch)
      }
      .trigger(Trigger.AvailableNow())
      .start()
    if (!running.awaitTermination(PatienceSeconds * 1000)) {
      running.stop()
      throw new TimeoutException(s"the query at $location makes no progress")
    }
  }

  private def take(batch: DataFrame, epoch: Long): Unit =
    if (!seals) sink.take(epoch, batch.collect().toSeq)
    else {
      val rows = CleancutSeal.seal(batch, epoch)
      try sink.take(epoch, rows.collect().toSeq)
      finally {
        rows.unpersist()
        ()
      }
    }

}

object FaultedQuery {
  private val PatienceSeconds = Patience.Seconds
  private val BaseMargin = 4L

  /** `minBatchesToRetain` of the sessions of these queries. */
  val EpochsToKeep = 2
}
