package io.cleancut.e2e

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{DataFrame, Dataset, Encoders, KeyValueGroupedDataset, Row}

import io.cleancut.CleancutSeal
import io.cleancut.conf.Keys
import io.cleancut.testkit.{QueryWaits, TestDirectory}

/**
 * Timeouts, timers and TTL in processing time of keys whose rows are in flight. Topology: a source,
 * one task of a function that ends a session of a key whenever its timeout expires, a sealing sink.
 * The second epoch is cut in its first key. Verified: the rows of a key that arrive together are in
 * one session, although they are processed in two epochs.
 */
class ProcessingTimeSuite extends AnyFunSuite with CutsSession {
  import ProcessingTimeSuite._

  override protected def master: String = "local[2]"

  override protected def partitions: Int = 1

  test("a timeout of flatMapGroupsWithState does not expire while rows of its key are in flight") {
    check { rows =>
      rows.flatMapGroupsWithState[Long, (Long, Long, Long)](
        OutputMode.Append(),
        GroupStateTimeout.ProcessingTimeTimeout()
      )(TimeoutSessions.of(slowly))(Encoders.scalaLong, encoder)
    }
  }

  test("a timer of transformWithState does not expire while rows of its key are in flight") {
    check { rows =>
      rows.transformWithState(
        new TimerSessions(slowly),
        TimeMode.ProcessingTime(),
        OutputMode.Append()
      )(encoder)
    }
  }

  test("values, lists and maps with TTL do not expire between rows that arrived together") {
    check { rows =>
      rows.transformWithState(
        new ExpiringSessions(slowly),
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
    // The epochs with rows of the last key, which waited for the first key or were in flight.
    val epochs =
      rows.filter(_._2.exists(_.getLong(1) >= Step)).map { case (epoch, rows) => epoch -> rows }
    assert(epochs.size > 1 && !epochs.head._2.exists(_.getLong(0) == Last), "no row was in flight")
    val sessions = rows
      .flatMap(_._2)
      .groupMap(row => (row.getLong(0), row.getLong(1) / Step))(_.getLong(2))
    assert(sessions.values.map(_.size).sum == SlowRows + 5)
    assert(sessions.filter(_._2.distinct.size > 1).keySet.isEmpty, "a session ended too early")
  }

  // `processAllAvailable` does not return: processing time makes Spark run empty epochs.
  private def awaitRows(
      query: StreamingQuery,
      seen: ConcurrentHashMap[Long, Seq[Row]],
      count: Int
  ): Unit = QueryWaits.until(query, s"$count rows are emitted") {
    seen.values.asScala.map(_.size).sum >= count
  }

  private def cutSlowEpoch(query: StreamingQuery): Unit = {
    val running = query.asInstanceOf[StreamingQueryWrapper].streamingQuery
    def cuts = DriverCuts.of(running.resolvedCheckpointRoot)
    QueryWaits.until(query, "the slow key is read")(isSlowRowMet)
    QueryWaits.until(query, "the epoch of the slow key is cut") {
      cuts.foreach(_.cutNow())
      cuts.exists(_.status.channels.exists(_.deferred.rows > 0))
    }
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
}
