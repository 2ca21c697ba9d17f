package org.apache.spark.sql.execution.streaming.state.cleancut.ui

/**
 * What epochs come to in a day, at their pace: requests, and US dollars for these by the prices of
 * S3 Standard in us-east-1, without what is stored. None where nobody bills requests.
 */
final private[ui] case class DailyPace(requests: Long, dollars: Option[Double])

private[ui] object DailyPace {
  private val DayMs = 24.0 * 3600 * 1000

  // The last ones say how fast it is now.
  private val LookedAt = 60

  /** None before the second epoch of a run. */
  def of(location: String, epochs: Seq[EpochEntry]): Option[DailyPace] = {
    val last = epochs.takeRight(LookedAt)
    val pairs = last.zip(last.drop(1)).filter { case (before, of) =>
      before.epoch + 1 == of.epoch && before.generation == of.generation
    }
    val ms = pairs.map { case (before, of) => of.writtenMs - before.writtenMs }.sum
    Option.when(ms > 0) {
      val counted = pairs.map(_._2)
      DailyPace(
        (counted.map(_.requests).sum * DayMs / ms).round,
        Option.when(location.startsWith("s3"))(counted.map(_.dollars).sum * DayMs / ms)
      )
    }
  }
}
