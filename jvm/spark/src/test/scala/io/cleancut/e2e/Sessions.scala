package io.cleancut.e2e

import java.time.Duration

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming._

/**
 * A function that returns the session of each row. A timeout in processing time ends a session: it
 * is due in the next epoch that has a later batch timestamp.
 */
object TimeoutSessions {
  def of(onRow: Event => Unit = _ => ())(
      key: Long,
      rows: Iterator[Event],
      state: GroupState[Long]
  ): Iterator[(Long, Long, Long)] = {
    val session = state.getOption.getOrElse(0L)
    if (state.hasTimedOut) {
      state.update(session + 1)
      Iterator.empty
    } else {
      state.update(session)
      state.setTimeoutDuration(1)
      rows.tapEach(onRow).map(row => (key, row.value, session)).toVector.iterator
    }
  }
}

/**
 * A processor that returns the session of each row. A timer in processing time ends a session: it
 * is due in the next epoch that has a later batch timestamp.
 */
class TimerSessions(onRow: Event => Unit = _ => ())
    extends StatefulProcessor[Long, Event, (Long, Long, Long)] {
  @transient private var session: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    session = getHandle.getValueState("session", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Event],
      timers: TimerValues
  ): Iterator[(Long, Long, Long)] = {
    val current = if (session.exists()) session.get() else 0L
    getHandle.registerTimer(timers.getCurrentProcessingTimeInMs() + 1)
    rows.tapEach(onRow).map(row => (key, row.value, current))
  }

  override def handleExpiredTimer(
      key: Long,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[(Long, Long, Long)] = {
    session.update((if (session.exists()) session.get() else 0L) + 1)
    Iterator.empty
  }
}

/**
 * A processor that returns the session of each row. A value, a list and a map with a TTL of one
 * millisecond begin sessions: one begins when any of the three has expired.
 */
class ExpiringSessions(onRow: Event => Unit = _ => ())
    extends StatefulProcessor[Long, Event, (Long, Long, Long)] {
  @transient private var session: ValueState[Long] = _
  @transient private var value: ValueState[Long] = _
  @transient private var list: ListState[Long] = _
  @transient private var map: MapState[Long, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val ttl = TTLConfig(Duration.ofMillis(1))
    session = getHandle.getValueState("session", Encoders.scalaLong, TTLConfig.NONE)
    value = getHandle.getValueState("value", Encoders.scalaLong, ttl)
    list = getHandle.getListState("list", Encoders.scalaLong, ttl)
    map = getHandle.getMapState("map", Encoders.scalaLong, Encoders.scalaLong, ttl)
  }

  override def handleInputRows(
      key: Long,
      rows: Iterator[Event],
      timers: TimerValues
  ): Iterator[(Long, Long, Long)] = rows.map { row =>
    onRow(row)
    val before = if (session.exists()) session.get() else 0L
    // Different amounts, so that sessions differ by the state that has expired.
    val begun = (if (value.exists()) 0L else 1L) +
      (if (list.exists()) 0L else 100L) +
      (if (map.exists() && map.containsKey(key)) 0L else 10000L)
    session.update(before + begun)
    if (!value.exists()) value.update(row.value)
    if (!list.exists()) list.appendValue(row.value)
    if (!map.containsKey(key)) map.updateValue(key, row.value)
    (key, row.value, before + begun)
  }
}
