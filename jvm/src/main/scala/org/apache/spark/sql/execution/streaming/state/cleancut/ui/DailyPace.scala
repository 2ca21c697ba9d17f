package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import io.cleancut.objects.RequestKind
import io.cleancut.objects.RequestKind.Billing

/**
 * What epochs come to in a day, at their pace: requests, and US dollars for these by the prices of
 * S3 Standard in us-east-1, without what is stored. None where nobody bills requests.
 */
final private[ui] case class DailyPace(requests: Long, dollars: Option[Double])

private[ui] object DailyPace {
  private val DayMs = 24.0 * 3600 * 1000

  // As PRICES in cleancut/_reading/prices.py, which a test compares.
  private val ClassAPerMillion = 5.00
  private val ClassBPerMillion = 0.40

  // The last ones: to read the records of more would take a page's time.
  private val LookedAt = 60

  private val billing = RequestKind.values.map(kind => kind.name -> kind.billing).toMap

  /** None before the second epoch of a run. */
  def of(location: String, epochs: Seq[EpochEntry]): Option[DailyPace] = {
    val last = epochs.takeRight(LookedAt)
    val pairs = last.zip(last.drop(1)).filter { case (before, of) =>
      before.epoch + 1 == of.epoch && before.generation == of.generation
    }
    val ms = pairs.map { case (before, of) => of.writtenMs - before.writtenMs }.sum
    Option.when(ms > 0) {
      val records = pairs.flatMap(_._2.record.toOption.flatMap(_.costs))
      val byClass = records
        .flatMap(_.all.requests)
        .groupMapReduce { case (kind, _) => billing.getOrElse(kind, Billing.ClassA) }(
          _._2.requests
        )(_ + _)
      def daily(of: Billing) = byClass.getOrElse(of, 0L) * DayMs / ms
      val (a, b) = (daily(Billing.ClassA), daily(Billing.ClassB))
      DailyPace(
        (a + b + daily(Billing.Free)).round,
        Option.when(location.startsWith("s3"))((a * ClassAPerMillion + b * ClassBPerMillion) / 1e6)
      )
    }
  }
}
