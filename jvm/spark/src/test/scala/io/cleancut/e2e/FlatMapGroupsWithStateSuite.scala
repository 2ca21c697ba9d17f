package io.cleancut.e2e

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.streaming._

import io.cleancut.testkit.LongTest

/** The state of a key; a string of changing length results in values of many sizes. */
final case class Running(count: Long, total: Long, last: Option[String])

/** An output row of the function; `timedOut` marks rows of a timeout. */
final case class Emitted(key: Long, count: Long, total: Long, timedOut: Boolean)

/**
 * `flatMapGroupsWithState` and `mapGroupsWithState`, with and without event-time timeouts, through
 * restarts. Rows and epochs must equal those of the same query on Spark's RocksDB provider.
 */
class FlatMapGroupsWithStateSuite extends AnyFunSuite with RocksDbComparison {
  import FlatMapGroupsWithStateSuite._

  for {
    (name, timeout) <- Seq(
      "without timeouts" -> GroupStateTimeout.NoTimeout(),
      "with event-time timeouts" -> GroupStateTimeout.EventTimeTimeout()
    )
    mode <- Seq(OutputMode.Update(), OutputMode.Append())
  }
    test(
      s"flatMapGroupsWithState $name in $mode mode returns the rows of the built-in provider",
      LongTest
    )(compare(mode)(flatMapped(_, timeout, mode)))

  test("mapGroupsWithState returns the rows of the built-in provider", LongTest) {
    compare(OutputMode.Update())(mapped)
  }

  private def flatMapped(
      events: Dataset[Event],
      timeout: GroupStateTimeout,
      mode: OutputMode
  ): DataFrame = {
    import spark.implicits._
    events.groupByKey(_.key).flatMapGroupsWithState(mode, timeout)(counted(timeout)).toDF()
  }

  private def mapped(events: Dataset[Event]): DataFrame = {
    import spark.implicits._
    val timeout = GroupStateTimeout.NoTimeout()
    events
      .groupByKey(_.key)
      .mapGroupsWithState[Running, Emitted](timeout) {
        (key: Long, rows: Iterator[Event], state: GroupState[Running]) =>
          counted(timeout)(key, rows, state).next()
      }
      .toDF()
  }
}

object FlatMapGroupsWithStateSuite {
  private val TimeoutMs = 12000L

  private[e2e] def counted(timeout: GroupStateTimeout)(
      key: Long,
      rows: Iterator[Event],
      state: GroupState[Running]
  ): Iterator[Emitted] =
    if (state.hasTimedOut) {
      val last = state.get
      state.remove()
      Iterator(Emitted(key, last.count, last.total, timedOut = true))
    } else {
      val before = state.getOption.getOrElse(Running(0, 0, None))
      val values = rows.map(_.value).toSeq
      val after = Running(
        before.count + values.size,
        before.total + values.sum,
        if (values.sum % 5 == 0) None else Some("x" * (values.sum % 40).toInt)
      )
      if (after.count % 7 == 0) state.remove() else state.update(after)
      if (timeout == GroupStateTimeout.EventTimeTimeout() && state.exists) {
        state.setTimeoutTimestamp(Math.max(state.getCurrentWatermarkMs(), 0L) + TimeoutMs)
      }
      Iterator(Emitted(key, after.count, after.total, timedOut = false))
    }
}
