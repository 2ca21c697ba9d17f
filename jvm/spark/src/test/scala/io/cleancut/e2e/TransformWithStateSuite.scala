package io.cleancut.e2e

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.functions.window
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.testkit.LongTest

/** What the state of a key adds up to, and the event time up to which it does. */
final case class Balance(key: Long, ts: Timestamp, total: Long, kept: String)

/** What a key begins with. */
final case class Opening(key: Long, value: Long)

/**
 * `transformWithState` in Scala: alone, with an initial state, in a chain of two with an
 * aggregation behind them, and in a batch.
 */
class TransformWithStateSuite extends AnyFunSuite with AgainstRocksDb {

  test("one operator gives the rows of the built-in provider", LongTest) {
    compare(OutputMode.Append())(balances(_).toDF())
  }

  test("an operator with an initial state gives the rows of the built-in provider", LongTest) {
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

  test("a chain gives the rows of the built-in provider, without adaptive planning", LongTest) {
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try compare(OutputMode.Append())(chain)
    finally spark.conf.unset("spark.sql.adaptive.enabled")
  }

  test("in a batch, which has no checkpoint, it runs in a session with the extension") {
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
    val of = balances(events).select(($"key" % 3).as("key"), $"ts", $"total".as("value"))
    balances(of.as[Event]).groupBy($"key", window($"ts", "10 seconds")).count()
  }
}
