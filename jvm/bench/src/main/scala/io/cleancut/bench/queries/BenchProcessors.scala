package io.cleancut.bench.queries

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** A value state that counts the rows of each key. */
abstract class RowCount[I, O] extends StatefulProcessor[Long, I, O] {
  @transient private var seen: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    seen = getHandle.getValueState("seen", Encoders.scalaLong, TTLConfig.NONE)

  /** Adds a number of rows, and returns the total. */
  protected def count(rows: Int): Long = {
    val total = (if (seen.exists()) seen.get() else 0L) + rows
    seen.update(total)
    total
  }
}

/** Emits the number of rows of a key, once per epoch. */
final class CountingProcessor extends RowCount[Tick, Long] {

  override def handleInputRows(
      key: Long,
      rows: Iterator[Tick],
      timers: TimerValues
  ): Iterator[Long] = Iterator(count(rows.size))
}

/** Emits each row with its number within its key. */
final class NumberingProcessor extends RowCount[Long, (Long, Long)] {

  override def handleInputRows(
      key: Long,
      rows: Iterator[Long],
      timers: TimerValues
  ): Iterator[(Long, Long)] = rows.map(_ -> count(1))
}

/** A map state that sums the amounts of a key by their last digit. */
final class ByDigitProcessor extends StatefulProcessor[Long, Tick, Long] {
  @transient private var sums: MapState[Long, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    sums = getHandle.getMapState("sums", Encoders.scalaLong, Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Tick],
      timers: TimerValues
  ): Iterator[Long] = {
    rows.foreach { row =>
      val digit = row.amount % 10
      val before = if (sums.containsKey(digit)) sums.getValue(digit) else 0L
      sums.updateValue(digit, before + row.amount)
    }
    Iterator(sums.iterator().map(_._2).sum)
  }
}

/** A value state and a timer of each key; each row of the key moves the timer. */
final class TimedProcessor extends StatefulProcessor[Long, Tick, Long] {
  @transient private var due: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    due = getHandle.getValueState("due", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Tick],
      timers: TimerValues
  ): Iterator[Long] = {
    val next = rows.map(_.at.getTime).max + TimedProcessor.LagMs
    if (due.exists()) getHandle.deleteTimer(due.get())
    due.update(next)
    getHandle.registerTimer(next)
    Iterator(next)
  }

  override def handleExpiredTimer(
      key: Long,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[Long] = {
    due.clear()
    Iterator(expired.getExpiryTimeInMs())
  }
}

object TimedProcessor {
  private val LagMs = 60000L
}
