package io.cleancut.e2e

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Dataset, Encoders, Row}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.state.cleancut.sequence.{
  InSequence,
  SequenceRequest
}
import org.apache.spark.sql.functions.{coalesce, col, date_trunc, lit}
import org.apache.spark.sql.streaming._

/**
 * A query with its input, both from one number. Its rows do not depend on their epoch as long as
 * none is late. So the same query without cuts returns the same rows, however its epochs divide the
 * input.
 */
final class UnalignedQuery(val number: Long) {
  import UnalignedQuery._

  private val random = RandomRuns.random(number)
  private val selected = UnalignedInputs.ofQuery(number)

  val operator: StatefulOperator = selected(UnalignedInputs.Operator)
  val settings: Map[String, String] = operator.variants(selected(UnalignedInputs.StateFormat))

  // Within the watermark delay, so that no row is late in any epoch.
  private val inputs = Inputs(selected, maxDelayMs = selected(QueryInputs.WatermarkDelayMs))

  /** The input of each step. */
  val steps: Seq[Seq[Reading]] = Seq.tabulate(3 + random.nextInt(2)) { step =>
    val rows = inputs.rows(random, step, 10 + random.nextInt(70))
    if (isInSequence) inSequence(rows)
    else if (hasRepeats) repeating(numbered(step, rows))
    else if (isByRow) numbered(step, rows)
    else rows
  }

  // Separate, so that the other numbers of a seed do not change.
  private lazy val repeats = RandomRuns.random(number + (1L << 34))

  // Number of rows of each key so far. Lazy, because the steps above use it.
  private lazy val counts = mutable.Map.empty[Option[Long], Long].withDefaultValue(0L)

  /** Numbers the rows of each key from 1, without gaps. */
  private def inSequence(rows: Seq[Reading]): Seq[Reading] = rows.map { row =>
    counts(row.key) += 1
    row.copy(value = counts(row.key))
  }

  /**
   * Replaces some rows by the second last row of their key, so that equal rows are not adjacent.
   */
  private def repeating(rows: Seq[Reading]): Seq[Reading] = {
    val earlier = mutable.Map.empty[Option[Long], List[Reading]].withDefaultValue(Nil)
    rows.map { row =>
      val next = earlier(row.key) match {
        case _ :: before :: _ if repeats.nextBoolean() => before
        case _                                         => row
      }
      earlier(row.key) ::= next
      next
    }
  }

  /** Values of each key in input order, for functions that process single rows. */
  def values: Map[Long, Seq[Long]] =
    steps.flatten.groupMap(_.key.getOrElse(UnalignedQuery.NullKey))(_.value)

  /** Whether some rows of a key are equal. */
  private def hasRepeats: Boolean = selected(UnalignedInputs.EqualRows)

  /** Whether it emits the rows of a key sorted by value. */
  def isInSequence: Boolean = operator.name == "in_sequence"

  /** Whether the third column is a session, which must not end between rows of one step. */
  def hasSessions: Boolean = operator.name.endsWith("sessions by row")

  /** Whether state with TTL ends the sessions. */
  def hasTtl: Boolean = operator.name.contains("TTL")

  /** Whether the operator has timeouts, timers or TTL in processing time. */
  def hasProcessingTime: Boolean = hasSessions || isInSequence

  /** Whether it emits rows one by one, in the order of their values. */
  def isByRow: Boolean = operator.name.endsWith("by row")

  /**
   * Whether the final state can be compared. The state of joins, of deduplication within the
   * watermark, of timeouts and of processors depends on the epochs of rows.
   */
  def hasComparableState: Boolean = !operator.name.contains("join") &&
    !operator.name.startsWith("transformWithState") &&
    !operator.name.contains("WithinWatermark") && !operator.name.contains("timeouts") &&
    !hasSessions && !isInSequence

  /** The rare features of the query, for statistics. */
  def traits: Seq[String] = {
    val keys = steps.flatten.flatMap(_.key)
    val form = selected(QueryInputs.FormOfKeys)
    val isFloating = form.isFloating && keys.exists(key => Set(1L, 2L)(key % 5))
    val isNull = steps.flatten.exists(_.key.isEmpty)
    Seq(
      isInSequence -> "in_sequence",
      hasRepeats -> "equal rows of a key",
      (hasProcessingTime && !isInSequence) -> operator.name,
      (hasKeyForm && isFloating) -> "keys -0.0 or NaN",
      (hasKeyForm && form.isNested) -> "nested keys",
      (hasKeyForm && isNull) -> "null keys"
    ).collect { case (true, name) => name }
  }

  /** Whether the operator groups or joins by keys of the random form. */
  private def hasKeyForm: Boolean =
    Seq("aggregation", "window aggregation", "session").exists(operator.name.startsWith) ||
      operator.name.contains(" join,")

  /** Builds the query; it is the same at every call. */
  def apply(input: Dataset[Reading]): DataFrame =
    operator.build(input, new Choices(number, selected))

  override def toString: String =
    s"${operator.name}, $inputs, ${steps.map(_.size).mkString(" + ")} rows"
}

object UnalignedQuery {
  private def drawn = StatefulOperators.all.filter { operator =>
    val name = operator.name
    name.contains("aggregation") && !name.startsWith("transformWithState") ||
    name.contains(" join") ||
    name.startsWith(
      "session windows"
    ) || name == "dropDuplicates" || name == "dropDuplicates with watermark"
  }

  val operators: Seq[StatefulOperator] = drawn ++ Seq(
    StatefulOperator(
      "flatMapGroupsWithState by row",
      OutputMode.Append(),
      (input, _) => countedByRow(input)
    ),
    StatefulOperator(
      "transformWithState by row",
      OutputMode.Append(),
      (input, _) => processedByRow(input)
    ),
    StatefulOperator(
      "flatMapGroupsWithState with timeouts by row",
      OutputMode.Append(),
      timedByRow
    ),
    StatefulOperator("transformWithState with timers", OutputMode.Append(), timed),
    StatefulOperator(
      "dropDuplicatesWithinWatermark by second",
      OutputMode.Append(),
      distinctSeconds
    ),
    StatefulOperator("in_sequence", OutputMode.Append(), sequenced),
    StatefulOperator(
      "flatMapGroupsWithState with timeout sessions by row",
      OutputMode.Append(),
      (input, _) => timeoutSessions(input)
    ),
    StatefulOperator(
      "transformWithState with timer sessions by row",
      OutputMode.Append(),
      (input, _) => sessionsOf(input, new TimerSessions(slowly))
    ),
    StatefulOperator(
      "transformWithState with TTL sessions by row",
      OutputMode.Append(),
      (input, _) => sessionsOf(input, new ExpiringSessions(slowly))
    )
  )

  /** Whether some rows of a key may be equal: the operator returns each row of its input. */
  def mayRepeat(operator: StatefulOperator): Boolean =
    operator.name.endsWith("by row") && !operator.name.endsWith("sessions by row")

  // Functions on groups take a primitive key.
  private val NullKey = -1L
  private val RowsOfStep = 1000L
  private val GapTimeoutMs = TimeUnit.HOURS.toMillis(1)

  /** Step of a row that is numbered. */
  def stepOf(value: Long): Long = value / RowsOfStep

  /** Delays a row so that cuts divide the rows of a key. */
  private[e2e] def slowly(row: Event): Unit = if (row.value % 2 == 0) Thread.sleep(2)

  // Created once, because their reflection is slow.
  private val eventEncoder = Encoders.product[Event]
  private val numberedEncoder =
    Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong, Encoders.scalaLong)
  private val timerEncoder = Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong)

  private def numbered(step: Int, rows: Seq[Reading]): Seq[Reading] = rows.zipWithIndex.map {
    case (row, index) => row.copy(value = step * RowsOfStep + index)
  }

  private def events(input: Dataset[Reading]): Dataset[Event] = input
    .select(coalesce(col("key"), lit(NullKey)).as("key"), col("ts"), col("value"))
    .as(eventEncoder)

  private def countedByRow(input: Dataset[Reading]): DataFrame =
    numbering(events(input), GroupStateTimeout.NoTimeout())(countRows)

  private def numbering(events: Dataset[Event], timeout: GroupStateTimeout)(
      count: (Long, Iterator[Event], GroupState[Long]) => Iterator[(Long, Long, Long)]
  ): DataFrame = events
    .groupByKey(_.key)(Encoders.scalaLong)
    .flatMapGroupsWithState(OutputMode.Append(), timeout)(count)(
      Encoders.scalaLong,
      numberedEncoder
    )
    .toDF("key", "value", "number")

  /** The number of each row among those of its key. */
  private def countRows(
      key: Long,
      rows: Iterator[Event],
      state: GroupState[Long]
  ): Iterator[(Long, Long, Long)] = {
    val before = state.getOption.getOrElse(0L)
    val numbers = rows
      .tapEach(slowly)
      .zipWithIndex
      .map { case (row, i) =>
        (key, row.value, before + i + 1)
      }
      .toVector
    state.update(before + numbers.size)
    numbers.iterator
  }

  /**
   * Counts rows with a timeout that has no effect. Spark refuses a timeout before the watermark.
   */
  private def timedByRow(input: Dataset[Reading], random: Choices): DataFrame =
    numbering(events(StatefulOperators.timed(input, random)), GroupStateTimeout.EventTimeTimeout())(
      countTimedRows
    )

  private def countTimedRows(
      key: Long,
      rows: Iterator[Event],
      state: GroupState[Long]
  ): Iterator[(Long, Long, Long)] = {
    var lastMs = 0L
    val numbers = countRows(key, rows.tapEach(row => lastMs = lastMs.max(row.ts.getTime)), state)
    if (!state.hasTimedOut) state.setTimeoutTimestamp(lastMs + 1)
    numbers
  }

  /** Emits each time of a key after the watermark has passed it. */
  private def timed(input: Dataset[Reading], random: Choices): DataFrame =
    events(StatefulOperators.timed(input, random))
      .groupByKey(_.key)(Encoders.scalaLong)
      .transformWithState(new Reminder, TimeMode.EventTime(), OutputMode.Append())(timerEncoder)
      .toDF("key", "at")

  /** Deduplicates within a second, which is less than the watermark delay; so one row remains. */
  private def distinctSeconds(input: Dataset[Reading], random: Choices): DataFrame = input
    .withColumn("second", date_trunc("second", col("ts")))
    .withWatermark("ts", s"${Math.max(random.delayMs, 5000)} milliseconds")
    .dropDuplicatesWithinWatermark("key", "second")
    .select("key", "second")

  /** Buffers at most three rows of a key, which is less than the in-flight rows. */
  private def sequenced(input: Dataset[Reading], random: Choices): DataFrame = {
    val rows = events(input).select("key", "value")
    val request = SequenceRequest(
      key = Seq("key"),
      sequence = "value",
      previous = None,
      first = Some(1L),
      timeoutMs = Some(GapTimeoutMs),
      eventTime = None,
      onGap = "skip",
      maxHeld = 1 + (random.delayMs % 3),
      gapColumn = None,
      metrics = None
    )
    InSequence.of(rows.asInstanceOf[ClassicDataset[Row]], request)
  }

  private def timeoutSessions(input: Dataset[Reading]): DataFrame =
    numbering(events(input), GroupStateTimeout.ProcessingTimeTimeout())(TimeoutSessions.of(slowly))

  private def sessionsOf(
      input: Dataset[Reading],
      processor: StatefulProcessor[Long, Event, (Long, Long, Long)]
  ): DataFrame = events(input)
    .groupByKey(_.key)(Encoders.scalaLong)
    .transformWithState(processor, TimeMode.ProcessingTime(), OutputMode.Append())(numberedEncoder)
    .toDF("key", "value", "number")

  private def processedByRow(input: Dataset[Reading]): DataFrame =
    events(input)
      .groupByKey(_.key)(Encoders.scalaLong)
      .transformWithState(new RowCounter, TimeMode.None(), OutputMode.Append())(numberedEncoder)
      .toDF("key", "value", "number")
}

/** The number of each row among those of its key. */
class RowCounter extends StatefulProcessor[Long, Event, (Long, Long, Long)] {
  @transient private var count: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    count = getHandle.getValueState("count", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Event],
      timers: TimerValues
  ): Iterator[(Long, Long, Long)] = rows.map { row =>
    UnalignedQuery.slowly(row)
    val next = (if (count.exists()) count.get() else 0L) + 1
    count.update(next)
    (key, row.value, next)
  }
}

/** Emits the times of a key's rows, each by a timer. */
class Reminder extends StatefulProcessor[Long, Event, (Long, Long)] {

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = ()

  override def handleInputRows(
      key: Long,
      rows: Iterator[Event],
      timers: TimerValues
  ): Iterator[(Long, Long)] = {
    rows.foreach(row => getHandle.registerTimer(row.ts.getTime))
    Iterator.empty
  }

  override def handleExpiredTimer(
      key: Long,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[(Long, Long)] = Iterator((key, expired.getExpiryTimeInMs()))
}
