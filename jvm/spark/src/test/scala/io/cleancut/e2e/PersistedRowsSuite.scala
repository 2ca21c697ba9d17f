package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.{Success, TaskContext}
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import io.cleancut.CleancutSeal
import io.cleancut.conf.Keys
import io.cleancut.testkit.{LongTest, TestDirectory}

/**
 * Tasks that fail after Spark has persisted their rows. The next attempt reads these rows and does
 * not run the stateful operator, so only the failed attempt has written frames.
 */
class PersistedRowsSuite extends AnyFunSuite with CutsSession {
  import PersistedRowsSuite._

  override protected def master: String = "local[2, 4]"

  override protected def partitions: Int = Partitions

  for (mode <- Seq("aligned", "unaligned"); seals <- Seq(false, true)) {
    val sink = if (seals) "seals" else "does not seal"
    // Without long tests, each mode and each kind of sink runs once.
    val tags = if (seals == (mode == "unaligned")) Nil else Seq(LongTest)
    test(
      s"tasks fail after a batch is persisted, in mode $mode, with a sink that $sink",
      tags: _*
    ) {
      TestDirectory.use("kept-rows")(root => failingOnce(root, mode, seals))
    }
  }

  private def failingOnce(root: Path, mode: String, seals: Boolean): Assertion = {
    val failures = new AtomicInteger
    val counting = new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (end.reason != Success) {
          failures.incrementAndGet()
          ()
        }
    }
    spark.sparkContext.addSparkListener(counting)
    val session = spark.newSession()
    session.conf.set(Keys.Mode.name, mode)
    val input = MemoryStream(Encoders.scalaLong, session)
    val seen = new ConcurrentHashMap[Long, Seq[Long]]
    val query = input
      .toDF()
      .dropDuplicates("value")
      .writeStream
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: DataFrame, epoch: Long) =>
        val kept = batch.persist()
        failOnce(kept)
        val rows = if (seals) CleancutSeal.seal(batch, epoch) else kept
        seen.put(epoch, rows.collect().map(_.getLong(0)).toSeq)
        rows.unpersist()
        ()
      }
      .start()
    try
      for (epoch <- 0L until Epochs) {
        // Half of the values are in the previous epoch too.
        input.addData(epoch * New until (epoch + 2) * New)
        query.processAllAvailable()
      }
    finally {
      query.stop()
      spark.sparkContext.removeSparkListener(counting)
    }
    val all = seen.asScala.values.flatten.toSeq
    assert(all.sorted == (0L until (Epochs + 1) * New), "rows are lost or duplicated")
    assert(failures.get >= Epochs * Partitions)
  }
}

object PersistedRowsSuite {
  private val Partitions = 3
  private val Epochs = 4L
  private val New = 50L

  /** Fails the first attempt of each task after it has read all its rows. */
  private def failOnce(rows: DataFrame): Unit = rows.foreachPartition {
    (partition: Iterator[Row]) =>
      partition.foreach(_ => ())
      if (TaskContext.get().attemptNumber() == 0)
        throw new IllegalStateException("the first attempt")
  }
}
