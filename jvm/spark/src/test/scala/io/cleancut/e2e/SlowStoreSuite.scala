package io.cleancut.e2e

import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{ConcurrentLinkedQueue, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.cleancut.history.CleancutEpochCommitted
import org.apache.spark.sql.Encoders

import io.cleancut.history.{EpochRecordJson, SlowEpochs, SlowReason}
import io.cleancut.testkit.{
  Fault,
  HttpMessage,
  LongTest,
  Patience,
  ProxiedServer,
  S3Server,
  SmallQueries
}

/** A slow object store delays epochs in several ways, and each has its own reason. */
class SlowStoreSuite extends AnyFunSuite with ProxiedServer {
  import SlowStoreSuite._

  private def isWrite(directory: String)(request: HttpMessage): Boolean =
    request.method == "PUT" && request.target.contains(directory)

  test("repeated requests, slow uploads and slow commits have different reasons", LongTest) {
    val spark = SmallQueries.session("local[2]")(
      _.config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config(SmallQueries.inBucket(endpoint))
    )
    val reported = new ConcurrentLinkedQueue[(Long, Option[SlowReason])]
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
        case CleancutEpochCommitted(_, _, epoch, json) =>
          EpochRecordJson.read(json).foreach(record => reported.add(epoch -> record.slow))
        case _ => ()
      }
    })
    val input = MemoryStream(Encoders.scalaLong, spark)
    val query = SmallQueries.counting(input, s"s3://${S3Server.Bucket}/slow")

    def epochs(number: Int): Unit = for (_ <- 0 until number) {
      input.addData(0L until 5000L)
      query.processAllAvailable()
    }

    def slowed(fault: Fault, times: Int, directory: String): Long = {
      val harm = proxy.harm(fault, times)(isWrite(directory))
      epochs(1)
      assert(harm.strikes == times)
      harm.end()
      val epoch = query.lastProgress.batchId
      epochs(2)
      epoch
    }

    try {
      epochs(10)
      val expected = Map(
        slowed(Fault.Answer(503, "SlowDown"), 5, "/segments/") -> SlowEpochs.Retries,
        slowed(Fault.Delay(4000), 1, "/segments/") -> SlowEpochs.Upload,
        slowed(Fault.Delay(4000), 1, "/cuts/") -> SlowEpochs.Commit
      )
      val last = query.lastProgress.batchId
      val until = System.nanoTime() + PatienceNs
      while (!reported.asScala.exists(_._1 == last) && System.nanoTime() < until) Thread.sleep(20)
      val reasons = reported.asScala.toMap
      val kinds = expected.keys.map(epoch => epoch -> reasons(epoch).map(_.kind)).toMap
      assert(kinds == expected.map { case (epoch, kind) => epoch -> Some(kind) }, reasons)
      val page = spark.sparkContext.uiWebUrl.get + "/cuts/query/?location=s3://" +
        s"${S3Server.Bucket}/slow"
      val shown =
        Using.resource(new URI(page).toURL.openStream())(in => new String(in.readAllBytes(), UTF_8))
      for ((epoch, kind) <- expected) {
        assert(shown.contains(s"$kind: ${reasons(epoch).get.detail.take(20)}"))
        val label = s"""aria-label="epoch $epoch: [0-9,]+ ms, slow: $kind"""".r
        assert(label.findFirstIn(shown).nonEmpty)
      }
    } finally {
      query.stop()
      spark.stop()
    }
  }
}

private object SlowStoreSuite {
  private val PatienceNs = TimeUnit.SECONDS.toNanos(Patience.Seconds)
}
