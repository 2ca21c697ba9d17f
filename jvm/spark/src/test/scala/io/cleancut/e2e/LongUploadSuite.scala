package io.cleancut.e2e

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions.{count, length, max}
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.coordinator.state.QueryLedger
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.FrameKind
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.{ObjectKey, S3TestStore}
import io.cleancut.testkit.{HttpMessage, LargeBases, LongTest, Patience, S3Server}

/**
 * A base whose upload lasts longer than 40 epochs. If it were refused, the next one would be too,
 * and the chain of a large store would grow without limit if epochs are short.
 */
class LongUploadSuite extends AnyFunSuite with LargeBases with Patience {
  import LongUploadSuite._

  private val isHeld = new AtomicBoolean
  private val begun = new CountDownLatch(1)
  private val released = new CountDownLatch(1)
  private var last = Map.empty[Long, Long]

  override protected def further: Map[String, String] =
    Map("spark.sql.streaming.minBatchesToRetain" -> Kept.toString)

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    proxy.watch { request =>
      if (isHeld.get && isPart(request)) {
        begun.countDown()
        released.await(10, TimeUnit.MINUTES): Unit
      }
    }
  }

  override protected def afterAll(): Unit = {
    released.countDown()
    super.afterAll()
  }

  private def start(): StreamingQuery = input
    .toDS()
    .toDF("key", "value")
    .groupBy("key")
    .agg(count("*"), length(max("value")))
    .writeStream
    .outputMode("update")
    .option("checkpointLocation", s"s3://${S3Server.Bucket}/$Name")
    .foreachBatch { (batch: DataFrame, _: Long) =>
      batch.collect().foreach(row => last += row.getLong(0) -> row.getLong(1))
    }
    .start()

  /** Runs epochs of three rows each. */
  private def epochs(query: StreamingQuery, number: Int): Unit = (1 to number).foreach { _ =>
    input.addData((0L until 3L).map(_ -> Array.emptyByteArray))
    query.processAllAvailable()
  }

  private def archive: CutArchive = S3TestStore.archive(server.endpoint, Name)

  private def chain(cut: Cut) = cut.stores.head.frames

  test(
    "a base that is uploaded later than the margin is adopted, and referenced segments are kept",
    LongTest
  ) {
    val query = start()
    try {
      addLarge(LargeBases.Keys)
      query.processAllAvailable()
      isHeld.set(true)
      epochs(query, 2)
      assert(begun.await(Patience.Seconds, TimeUnit.SECONDS), "no base is being uploaded")
      val before = archive.cuts.last().get.whole
      epochs(query, 2 * QueryLedger.BaseMargin.toInt + 5)
      assert(chain(archive.cuts.last().get.whole).head == chain(before).head)
      isHeld.set(false)
      released.countDown()
      val adopted = eventually {
        epochs(query, 1)
        archive.cuts
          .last()
          .filter(_.head.late.nonEmpty)
          .getOrElse(fail("no late base is adopted"))
          .whole
      }
      val (kind, version, place) = chain(adopted).head
      assert(kind == FrameKind.Base && version.number + 2 * QueryLedger.BaseMargin < adopted.epoch)
      assert(adopted.late.map(_.segment) == Seq(place.segment))
      epochs(query, QueryLedger.BaseMargin.toInt + 5)
    } finally query.stop()
    checkKept()
    restart()
  }

  /** Checks that all segments of the retained cuts exist. */
  private def checkKept(): Unit = {
    val cuts = archive.cuts.epochs().flatMap(archive.cuts.read(_))
    assert(cuts.size <= Kept + QueryLedger.BaseMargin + 1)
    val missing = cuts.flatMap(_.segments).distinct.filter { segment =>
      archive.store.head(ObjectKey(segment)).isEmpty
    }
    assert(missing.isEmpty)
    ()
  }

  private def restart(): Unit = {
    StateStore.stop()
    val counted = last
    val query = start()
    try epochs(query, 1)
    finally query.stop()
    assert(last == counted ++ (0L until 3L).map(key => key -> (counted(key) + 1)))
    ()
  }
}

object LongUploadSuite {
  private val Name = "long-upload"
  private val Kept = 2

  private def isPart(request: HttpMessage): Boolean =
    request.method == "PUT" && request.target.contains("partNumber=")
}
