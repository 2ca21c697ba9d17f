package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, timestamp_seconds}

import io.cleancut.CleancutSeal
import io.cleancut.conf.Keys
import io.cleancut.e2e.CutsSession
import io.cleancut.testkit.{LongTest, TestDirectory}

/** The number of a task's messages is independent of its operator's stores. */
class TaskMessagesSuite extends AnyFunSuite with CutsSession {
  override protected def master: String = "local[2]"

  override protected def partitions: Int = 3

  private def timed(rows: DataFrame, key: String, time: String): DataFrame = rows
    .select(col("value").as(key), timestamp_seconds(col("value")).as(time))
    .withWatermark(time, "1 hour")

  private def joined(rows: DataFrame): DataFrame = {
    val near = expr("l = r AND rt BETWEEN lt AND lt + INTERVAL 1 MINUTE")
    timed(rows, "l", "lt").join(timed(rows, "r", "rt"), near)
  }

  private def counted(rows: DataFrame): DataFrame = rows.groupBy("value").count()

  for {
    (name, query) <- Seq[(String, DataFrame => DataFrame)]("join" -> joined, "count" -> counted)
    mode <- Seq("aligned", "unaligned")
    tags = if (name == "join") Nil else Seq(LongTest)
  } test(s"$name, $mode: a task sends messages only when it begins and when it ends", tags: _*) {
    TestDirectory.use("messages") { root =>
      spark.conf.set(Keys.Mode.name, mode)
      val input = MemoryStream(Encoders.scalaLong, spark)
      val running = query(input.toDF()).writeStream
        .outputMode(if (name == "join") "append" else "update")
        .option("checkpointLocation", root.toString)
        .foreachBatch { (batch: DataFrame, epoch: Long) =>
          CleancutSeal.seal(batch, epoch).collect()
          ()
        }
        .start()
      try {
        // The first epoch of a query has no known stores, and is aligned.
        for (epoch <- 0 until 2) {
          input.addData((0L until 100L).map(_ + epoch * 1000))
          running.processAllAvailable()
        }
        val messages = new ConcurrentLinkedQueue[CutsMessage]
        RecordedMessages.install((message, _) => messages.add(message))
        input.addData(5000L until 5100L)
        running.processAllAvailable()
        val byTask = messages.asScala.toSeq.collect {
          case Start(_, _, task)            => task.attempt -> "start"
          case Deliver(_, _, made, _)       => made.attempt -> "deliver"
          case Arrived(_, _, task, _)       => task -> "arrived"
          case ChainRequest(_, _, store, _) => fail(s"$store was evicted from memory")
          case Accepted(_, store, _)        => fail(s"$store is requested again")
        }
        val each = byTask.groupMap(_._1)(_._2).values.map(_.sorted.toSeq).toSet
        val channels = if (mode == "aligned") 0 else if (name == "join") 2 else 1
        assert(each == Set(Seq.fill(channels)("arrived") ++ Seq("deliver", "start")))
        assert(byTask.map(_._1).distinct.size % partitions == 0 && byTask.nonEmpty)
      } finally running.stop()
    }
  }
}
