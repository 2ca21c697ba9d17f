package org.apache.spark.sql.execution.streaming.state.cleancut.session

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, Trigger}
import org.apache.spark.util.Clock

/**
 * Clock of the batch timestamps of a query. It moves only when a test advances it. Durations are in
 * real time. Thread-safe.
 */
final class TriggerClock extends Clock {
  // Spark treats 0 as an absent timestamp.
  private val nowMs = new AtomicLong(1L)

  def advance(byMs: Long): Unit = {
    nowMs.addAndGet(byMs)
    ()
  }

  override def getTimeMillis(): Long = nowMs.get

  override def nanoTime(): Long = System.nanoTime

  override def waitTillTime(timeMs: Long): Long =
    throw new UnsupportedOperationException("no trigger interval with this clock")

  /** Starts a query with a `foreachBatch` sink and this clock. */
  def start(output: DataFrame, location: String, mode: OutputMode, trigger: Option[Trigger])(
      sink: (DataFrame, Long) => Unit
  ): StreamingQuery = {
    val rows: classic.DataFrame = output
    rows.sparkSession.streams.startQuery(
      userSpecifiedName = None,
      userSpecifiedCheckpointLocation = Some(location),
      df = rows,
      extraOptions = Map("checkpointLocation" -> location),
      sink = new ForeachBatchSink(sink, ExpressionEncoder(rows.schema)),
      outputMode = mode,
      trigger = trigger.getOrElse(Trigger.ProcessingTime(0L)),
      triggerClock = this
    )
  }
}
