package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import io.cleancut.history.StorePrices

/**
 * What epochs come to in a day, at their pace, by the prices of S3 Standard in us-east-1.
 *
 * @param ofRequests
 *   US dollars for these; None where nobody bills them
 * @param ofStored
 *   US dollars for what is stored; None likewise, and where the driver does not know how much it is
 */
final private[ui] case class DailyPace(
    requests: Long,
    ofRequests: Option[Double],
    ofStored: Option[Double]
) {

  /** For both, in words: "–" where nothing is billed. */
  def dollars: String = ofRequests.fold("–") { requests =>
    ofStored.fold(s"${Figures.dollars(requests)} and what is stored")(stored =>
      Figures.dollars(requests + stored)
    )
  }

  /** With what it is made of. */
  def explained: String = {
    val dollars = ofRequests.fold("") { requests =>
      val stored = ofStored.fold("without what is stored") { of =>
        s"and ${Figures.dollars(of)} for what is stored"
      }
      s", ${Figures.dollars(requests)} for these by the prices of S3 Standard, $stored"
    }
    s"${Figures.count(requests)} requests a day$dollars"
  }
}

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
      val isBilled = location.startsWith("s3")
      val stored = last.lastOption.map(_.storedBytes).filter(_ > 0)
      DailyPace(
        (counted.map(_.requests).sum * DayMs / ms).round,
        Option.when(isBilled)(counted.map(_.dollars).sum * DayMs / ms),
        stored.filter(_ => isBilled).map(StorePrices.storedADay)
      )
    }
  }
}
