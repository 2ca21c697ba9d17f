package io.cleancut.e2e

import java.sql.Timestamp

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/** Keeps a value, a list and a map for each key until an event-time timer clears them. */
trait LedgerState {
  @transient private var total: ValueState[Long] = _
  @transient private var recent: ListState[Long] = _
  @transient private var counts: MapState[Long, Long] = _

  protected def open(handle: StatefulProcessorHandle): Unit = {
    total = handle.getValueState("total", Encoders.scalaLong, TTLConfig.NONE)
    recent = handle.getListState("recent", Encoders.scalaLong, TTLConfig.NONE)
    counts = handle.getMapState("counts", Encoders.scalaLong, Encoders.scalaLong, TTLConfig.NONE)
  }

  protected def take(value: Long): Unit = {
    total.update(sum + value)
    if (value % 5 == 0) recent.put(Array(value)) else recent.appendValue(value)
    val digit = value % 10
    if (digit == 3 && counts.containsKey(digit)) counts.removeKey(digit)
    else counts.updateValue(digit, value)
  }

  protected def balance(key: Long, atMs: Long): Balance = {
    val byDigit = counts.iterator().toSeq.sorted
    Balance(key, new Timestamp(atMs), sum, s"${recent.get().toSeq} $byDigit")
  }

  protected def clear(): Unit = {
    total.clear()
    recent.clear()
    counts.clear()
  }

  private def sum: Long = if (total.exists()) total.get() else 0L
}

/** The common code of a processor with and without an initial state. */
trait LedgerProcessor extends StatefulProcessor[Long, Event, Balance] with LedgerState {
  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = open(getHandle)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Event],
      timers: TimerValues
  ): Iterator[Balance] = {
    val events = rows.toSeq.sortBy(event => (event.ts.getTime, event.value))
    events.foreach(event => take(event.value))
    val latestMs = events.last.ts.getTime
    getHandle.listTimers().toSeq.foreach(getHandle.deleteTimer)
    getHandle.registerTimer(latestMs + LedgerProcessor.TimerMs)
    Iterator(balance(key, latestMs))
  }

  override def handleExpiredTimer(
      key: Long,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[Balance] = {
    // A row that is not later than the watermark may not be emitted.
    val last = balance(key, timers.getCurrentWatermarkInMs() + 1)
    clear()
    Iterator(last.copy(kept = s"${expired.getExpiryTimeInMs()} ${last.kept}"))
  }
}

object LedgerProcessor {
  private val TimerMs = 12000L
}

class Ledger extends LedgerProcessor

class OpenedLedger
    extends StatefulProcessorWithInitialState[Long, Event, Balance, Opening]
    with LedgerProcessor {
  override def handleInitialState(key: Long, opening: Opening, timers: TimerValues): Unit =
    take(opening.value)
}
