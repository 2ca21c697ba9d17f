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
 * Tasks that fail when Spark has kept their rows already, so that the next attempt reads those and
 * never comes to the stateful operator: what the failed one wrote is all there is.
 */
class KeptRowsSuite extends AnyFunSuite with WithCuts {
  import KeptRowsSuite._

  override protected def master: String = "local[2, 4]"

  override protected def partitions: Int = Partitions

  for (mode <- Seq("aligned", "unaligned"); seals <- Seq(false, true)) {
    val sink = if (seals) "seals" else "does not seal"
    // Each mode and each kind of sink is met once.
    val tags = if (seals == (mode == "unaligned")) Nil else Seq(LongTest)
    test(
      s"tasks that fail behind a batch that is kept, in mode $mode, with a sink that $sink",
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
        // Half of them are known from the epoch before.
        input.addData(epoch * New until (epoch + 2) * New)
        query.processAllAvailable()
      }
    finally {
      query.stop()
      spark.sparkContext.removeSparkListener(counting)
    }
    val all = seen.asScala.values.flatten.toSeq
    assert(all.sorted == (0L until (Epochs + 1) * New), "rows are lost or doubled")
    assert(failures.get >= Epochs * Partitions)
  }
}

object KeptRowsSuite {
  private val Partitions = 3
  private val Epochs = 4L
  private val New = 50L

  /** The first attempt of each task reads all of its rows, and fails. */
  private def failOnce(rows: DataFrame): Unit = rows.foreachPartition { (of: Iterator[Row]) =>
    of.foreach(_ => ())
    if (TaskContext.get().attemptNumber() == 0) throw new IllegalStateException("the first one")
  }
}
