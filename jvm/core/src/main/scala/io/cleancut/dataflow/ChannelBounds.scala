package io.cleancut.dataflow

/**
 * Limits of a reader's batch. A batch has complete epochs, and at least one with rows; epochs
 * without rows do not count.
 *
 * @param epochs
 *   number of epochs with rows
 */
final case class ChannelBounds(epochs: Option[Long], rows: Option[Long], bytes: Option[Long]) {

  /**
   * The epochs to process. The last one has rows: epochs without rows do not start a batch,
   * otherwise two queries that read each other would never be idle.
   */
  def admitted(pending: Seq[SentEpoch]): Seq[SentEpoch] = {
    var count, allRows, allBytes = 0L
    def fits(limit: Option[Long], sum: Long) = limit.forall(sum <= _)
    val taken = pending.takeWhile { epoch =>
      epoch.rows == 0 || {
        count += 1
        allRows += epoch.rows
        allBytes += epoch.bytes
        count == 1 || (fits(epochs, count) && fits(rows, allRows) && fits(bytes, allBytes))
      }
    }
    taken.take(taken.lastIndexWhere(_.rows > 0) + 1)
  }
}

object ChannelBounds {
  val None: ChannelBounds = ChannelBounds(Option.empty, Option.empty, Option.empty)
}
