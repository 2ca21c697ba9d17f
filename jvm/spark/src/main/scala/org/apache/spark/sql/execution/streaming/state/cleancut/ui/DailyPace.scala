package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import io.cleancut.history.StorePrices

/**
 * Requests and cost per day at the current pace of epochs, at the prices of S3 Standard in
 * us-east-1.
 *
 * @param requestDollars
 *   cost of the requests in US dollars; None if they are not billed
 * @param storageDollars
 *   cost of the stored data in US dollars; None if it is not billed or the size is unknown
 */
final private[ui] case class DailyPace(
    requests: Long,
    requestDollars: Option[Double],
    storageDollars: Option[Double]
) {

  /** The sum as text: "–" if nothing is billed. */
  def dollars: String = requestDollars.fold("–") { requests =>
    storageDollars.fold(s"${Figures.dollars(requests)} without storage")(stored =>
      Figures.dollars(requests + stored)
    )
  }

  /** The requests and both costs as text. */
  def explained: String = {
    val dollars = requestDollars.fold("") { requests =>
      val stored = storageDollars.fold("without storage") { dollars =>
        s"and ${Figures.dollars(dollars)} for storage"
      }
      s", ${Figures.dollars(requests)} for these at the prices of S3 Standard, $stored"
    }
    s"${Figures.count(requests)} requests per day$dollars"
  }
}

private[ui] object DailyPace {
  private val DayMs = 24.0 * 3600 * 1000

  // The last epochs determine the current pace.
  private val MaxEpochs = 60

  /** None before the second epoch of a run. */
  def of(location: String, epochs: Seq[EpochEntry]): Option[DailyPace] = {
    val last = epochs.takeRight(MaxEpochs)
    val pairs = last.zip(last.drop(1)).filter { case (before, after) =>
      before.epoch + 1 == after.epoch && before.generation == after.generation
    }
    val ms = pairs.map { case (before, after) => after.writtenMs - before.writtenMs }.sum
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
