package io.cleancut.testkit

import java.util.concurrent.{TimeoutException, TimeUnit}

import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimits}
import org.scalatest.time.{Seconds, Span}

import org.apache.spark.sql.streaming.StreamingQuery

/**
 * Waits for a streaming query. Each wait throws the exception of the query, or fails at its limit.
 */
object QueryWaits {
  implicit private val signaler: Signaler = ThreadSignaler

  /**
   * Polls until a condition holds.
   *
   * @param description
   *   description of the condition, for the error
   */
  def until(query: StreamingQuery, description: String)(condition: => Boolean): Unit = {
    val endNs = System.nanoTime + TimeUnit.SECONDS.toNanos(Patience.Seconds)
    var isMet = condition
    while (!isMet) {
      if (System.nanoTime > endNs)
        throw new TimeoutException(s"not after ${Patience.Seconds} seconds: $description")
      Thread.sleep(5)
      // Read before the condition, because the last epoch may meet it.
      val isActive = query.isActive
      isMet = condition
      if (!isMet && !isActive) throw endOf(query, description)
    }
  }

  /** Processes all input that is available. */
  def drain(query: StreamingQuery): Unit =
    TimeLimits.failAfter(Span(Patience.Seconds, Seconds))(query.processAllAvailable())

  def end(query: StreamingQuery): Unit =
    if (!query.awaitTermination(TimeUnit.SECONDS.toMillis(Patience.Seconds)))
      throw new TimeoutException(s"the query runs after ${Patience.Seconds} seconds")

  private def endOf(query: StreamingQuery, description: String): Exception =
    query.exception.getOrElse(new IllegalStateException(s"the query ended before: $description"))
}
