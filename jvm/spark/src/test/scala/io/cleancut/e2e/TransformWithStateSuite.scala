package io.cleancut.e2e

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.functions.window
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.testkit.LongTest

/** The total of a key and the event time up to which it counts. */
final case class Balance(key: Long, ts: Timestamp, total: Long, kept: String)

/** The initial value of a key. */
final case class Opening(key: Long, value: Long)

/**
 * `transformWithState` in Scala: alone, with an initial state, in a chain of two before an
 * aggregation, and in a batch query.
 */
class TransformWithStateSuite extends AnyFunSuite with RocksDbComparison {

  test("one operator returns the rows of the built-in provider", LongTest) {
    compare(OutputMode.Append())(balances(_).toDF())
  }

  test("an operator with an initial state returns the rows of the built-in provider", LongTest) {
    import spark.implicits._
    val openings = Seq(Opening(1, 1000), Opening(2, 2000), Opening(99, 3000)).toDS()
    compare(OutputMode.Append()) { events =>
      events
        .groupByKey(_.key)
        .transformWithState(
          new OpenedLedger,
          "ts",
          OutputMode.Append(),
          openings.groupByKey(_.key)
        )
        .toDF()
    }
  }

  test("a chain returns the rows of the built-in provider, without adaptive planning", LongTest) {
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try compare(OutputMode.Append())(chain)
    finally spark.conf.unset("spark.sql.adaptive.enabled")
  }

  test("a batch query without a checkpoint runs in a session with the extension") {
    import spark.implicits._
    spark.conf.set(
      "spark.sql.streaming.stateStore.providerClass",
      classOf[CleancutStateStoreProvider].getName
    )
    val numbered = spark
      .range(100)
      .selectExpr("id % 7 AS key", "timestamp_seconds(id) AS ts", "id AS value")
      .as[Event]
      .groupByKey(_.key)
      .transformWithState(new RowCounter, TimeMode.None(), OutputMode.Append())
    val counts = numbered.collect().groupMapReduce(_._1)(_._3)(_ max _)
    assert(counts == (0L until 100L).groupMapReduce(_ % 7)(_ => 1L)(_ + _))
  }

  private def balances(events: Dataset[Event]): Dataset[Balance] = {
    import spark.implicits._
    events.groupByKey(_.key).transformWithState(new Ledger, "ts", OutputMode.Append())
  }

  private def chain(events: Dataset[Event]): DataFrame = {
    import spark.implicits._
    val renamed = balances(events).select(($"key" % 3).as("key"), $"ts", $"total".as("value"))
    balances(renamed.as[Event]).groupBy($"key", window($"ts", "10 seconds")).count()
  }
}
