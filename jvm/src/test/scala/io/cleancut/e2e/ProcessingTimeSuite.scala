package io.cleancut.e2e

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset, Encoders, KeyValueGroupedDataset, Row}
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.cleancut.cuts.DriverCuts
import org.apache.spark.sql.streaming._

import io.cleancut.CleancutSeal
import io.cleancut.conf.Keys
import io.cleancut.testkit.TestDirectory

/**
 * Timeouts, timers and TTL in processing time of keys whose rows are in flight. Topology: a source,
 * one task of a function that ends a session of a key whenever its timeout expires, a sealing sink.
 * The second epoch is cut in its first key. Verified: the rows of a key that arrive together are in
 * one session, although they are processed in two epochs.
 */
class ProcessingTimeSuite extends AnyFunSuite with WithCuts {
  import ProcessingTimeSuite._

  override protected def master: String = "local[2]"

  override protected def partitions: Int = 1

  test("a timeout of flatMapGroupsWithState does not expire while rows of its key are in flight") {
    check { rows =>
      rows.flatMapGroupsWithState[Long, (Long, Long, Long)](
        OutputMode.Append(),
        GroupStateTimeout.ProcessingTimeTimeout()
      )(timeoutSessions)(Encoders.scalaLong, encoder)
    }
  }

  test("a timer of transformWithState does not expire while rows of its key are in flight") {
    check { rows =>
      rows.transformWithState(
        new TimerSessions,
        TimeMode.ProcessingTime(),
        OutputMode.Append()
      )(encoder)
    }
  }

  test("values, lists and maps with TTL do not expire between rows that arrived together") {
    check { rows =>
      rows.transformWithState(
        new ExpiringSessions,
        TimeMode.ProcessingTime(),
        OutputMode.Append()
      )(encoder)
    }
  }

  private def check(
      function: KeyValueGroupedDataset[Long, Event] => Dataset[(Long, Long, Long)]
  ): Assertion = TestDirectory.use("processing-time") { root =>
    val session = spark.newSession()
    session.conf.set(Keys.Mode.name, "unaligned")
    val input = MemoryStream(Encoders.product[Event], session)
    val seen = new ConcurrentHashMap[Long, Seq[Row]]
    isSlow = true
    isSlowRowMet = false
    val query = function(input.toDS().groupByKey(_.key)(Encoders.scalaLong))
      .toDF()
      .writeStream
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: DataFrame, epoch: Long) =>
        val kept = CleancutSeal.seal(batch, epoch)
        seen.put(epoch, kept.collect().toSeq)
        kept.unpersist()
        ()
      }
      .start()
    try {
      input.addData(Seq(First, Last).map(rowOf(_, 0)))
      awaitRows(query, seen, 2)
      input.addData(
        (0 until SlowRows).map(i => rowOf(First, Step + i)) ++
          (0 until 3).map(i => rowOf(Last, Step + i))
      )
      cutSlowEpoch(query)
      isSlow = false
      awaitRows(query, seen, SlowRows + 5)
    } finally {
      isSlow = false
      query.stop()
    }
    val rows = seen.asScala.toSeq.sortBy(_._1)
    // The epochs that have rows of the last key: it waited for the first key, or was in flight.
    val epochs = rows.filter(_._2.exists(_.getLong(1) >= Step)).map(of => of._1 -> of._2)
    assert(epochs.size > 1 && !epochs.head._2.exists(_.getLong(0) == Last), "no row was in flight")
    val sessions = rows
      .flatMap(_._2)
      .groupMap(row => (row.getLong(0), row.getLong(1) / Step))(_.getLong(2))
    assert(sessions.values.map(_.size).sum == SlowRows + 5)
    assert(sessions.filter(_._2.distinct.size > 1).keySet.isEmpty, "a session ended too early")
  }

  // With processing time, Spark runs epochs without input for ever.
  private def awaitRows(
      query: StreamingQuery,
      seen: ConcurrentHashMap[Long, Seq[Row]],
      count: Int
  ): Unit = {
    while (query.isActive && seen.values.asScala.map(_.size).sum < count) Thread.sleep(5)
    query.exception.foreach(throw _)
  }

  private def cutSlowEpoch(query: StreamingQuery): Unit = {
    val running = query.asInstanceOf[StreamingQueryWrapper].streamingQuery
    def cuts = DriverCuts.of(running.resolvedCheckpointRoot)
    def isCut = cuts.exists(_.status.channels.exists(_.deferred.rows > 0))
    while (query.isActive && !isSlowRowMet) Thread.sleep(5)
    while (query.isActive && !isCut) {
      cuts.foreach(_.cutNow())
      Thread.sleep(5)
    }
    query.exception.foreach(throw _)
  }
}

object ProcessingTimeSuite {
  private val First = 0L
  private val Last = 9L
  private val Step = 10000L
  private val SlowRows = 4000
  @volatile private var isSlow, isSlowRowMet = false

  private val encoder = Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong, Encoders.scalaLong)

  private def rowOf(key: Long, value: Long): Event =
    Event(key, new java.sql.Timestamp(0), value)

  private def slowly(row: Event): Unit =
    if (isSlow && row.key == First && row.value >= Step) {
      isSlowRowMet = true
      Thread.sleep(5)
    }

  /** The session of each row; a timeout, which is due in the next epoch, ends a session. */
  private def timeoutSessions(
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
      rows.tapEach(slowly).map(row => (key, row.value, session)).toVector.iterator
    }
  }

  /** The session of each row; a timer, which is due in the next epoch, ends a session. */
  class TimerSessions extends StatefulProcessor[Long, Event, (Long, Long, Long)] {
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
      rows.tapEach(slowly).map(row => (key, row.value, current))
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

  /** The session of each row, by a value, a list and a map that expire after a millisecond. */
  class ExpiringSessions extends StatefulProcessor[Long, Event, (Long, Long, Long)] {
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
      slowly(row)
      val before = if (session.exists()) session.get() else 0L
      // Each of the three begins a session of its own once it has expired.
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
}
