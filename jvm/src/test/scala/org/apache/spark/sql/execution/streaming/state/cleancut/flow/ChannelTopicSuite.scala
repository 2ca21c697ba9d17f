package org.apache.spark.sql.execution.streaming.state.cleancut.flow

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession

import io.cleancut.error.CleancutException
import io.cleancut.flow.{EpochMark, SentEpoch, SentRange, SentTopic}

/** Without Spark's connector, which is not on the class path here. */
class ChannelTopicSuite extends AnyFunSuite with BeforeAndAfterAll {

  private lazy val spark: SparkSession =
    SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

  override def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
  }

  private def epoch(ranges: SentRange*) = SentEpoch(
    EpochMark(0, "a"),
    "q",
    None,
    0,
    ranges.map(_.rows).sum,
    Vector.empty,
    "{}",
    Some(SentTopic("127.0.0.1:9", "orders", ranges.toVector))
  )

  private def scan(epochs: SentEpoch*) =
    new ChannelTopic(spark, "/channel", () => epochs, Map.empty).buildScan()

  test("a driver without the connector is told what it lacks") {
    val error = intercept[CleancutException](scan(epoch(SentRange(0, 0, 4, 5, 50))))
    assert(error.errorId == "CLEANCUT_FLOW_CONNECTOR_MISSING")
    assert(error.getMessage.contains("the topic orders of Kafka"))
  }

  test("epochs without rows ask nobody") {
    assert(scan().collect().isEmpty)
    assert(scan(epoch()).collect().isEmpty)
  }
}
