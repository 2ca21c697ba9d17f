package io.cleancut.bench.queries

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** A value of each key that counts its rows. */
abstract class RowCount[I, O] extends StatefulProcessor[Long, I, O] {
  @transient private var seen: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    seen = getHandle.getValueState("seen", Encoders.scalaLong, TTLConfig.NONE)

  /** Counts so many rows more, and returns how many there are. */
  protected def count(rows: Int): Long = {
    val total = (if (seen.exists()) seen.get() else 0L) + rows
    seen.update(total)
    total
  }
}

/** How many rows a key has had, once for all that it has in an epoch. */
final class CountingProcessor extends RowCount[Tick, Long] {

  override def handleInputRows(
      key: Long,
      rows: Iterator[Tick],
      timers: TimerValues
  ): Iterator[Long] = Iterator(count(rows.size))
}

/** Hands each row on with its number among those of its key. */
final class NumberingProcessor extends RowCount[Long, (Long, Long)] {

  override def handleInputRows(
      key: Long,
      rows: Iterator[Long],
      timers: TimerValues
  ): Iterator[(Long, Long)] = rows.map(_ -> count(1))
}

/** A map of each key that sums its amounts by their last digit. */
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

/** A value of each key and a timer, which moves with each of the key's rows. */
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
