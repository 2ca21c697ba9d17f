package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.ConcurrentLinkedQueue

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{length, max}
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.{CleancutExtensions, CleancutSeal}
import io.cleancut.testkit.{LargeBases, Patience, S3Server}

/** How long the tasks of a query wait for the response to each message that they send. */
class AskedPatienceSuite extends AnyFunSuite with LargeBases with Patience {
  import AskedPatienceSuite._

  override protected def further: Map[String, String] = Map(
    "spark.sql.extensions" -> classOf[CleancutExtensions].getName,
    "spark.sql.streaming.stateStore.cleancut.mode" -> "unaligned"
  )

  private def start(): StreamingQuery = input
    .toDS()
    .toDF("key", "value")
    .groupBy("key")
    .agg(length(max("value")))
    .writeStream
    .outputMode("update")
    .option("checkpointLocation", s"s3://${S3Server.Bucket}/asked-patience")
    .foreachBatch { (batch: DataFrame, epoch: Long) =>
      // Rows stay in flight only if the sink seals.
      CleancutSeal.seal(batch, epoch).collect()
      ()
    }
    .start()

  private def epoch(query: StreamingQuery, keys: Long): Unit = {
    addLarge(keys)
    query.processAllAvailable()
  }

  test("a task's timeout of each message exceeds that of the coordinator's requests") {
    val query = start()
    try {
      epoch(query, keys = 1)
      val messages = new ConcurrentLinkedQueue[(String, FiniteDuration)]
      RecordedMessages.install((message, patience) =>
        messages.add(message.getClass.getSimpleName -> patience)
      )
      // A base that is uploaded in parts is announced.
      epoch(query, LargeBases.Keys)
      eventually {
        epoch(query, keys = 1)
        assert(Expected.diff(messages.asScala.map(_._1).toSet) == Set.empty)
      }
      val short = messages.asScala.filter(_._2 <= 10.minutes).toSet
      assert(short == Set.empty)
    } finally query.stop()
  }
}

object AskedPatienceSuite {
  private val Expected =
    Set("Start", "Arrived", "AwaitOvertaken", "Deliver", "Announce", "Writer")
}
