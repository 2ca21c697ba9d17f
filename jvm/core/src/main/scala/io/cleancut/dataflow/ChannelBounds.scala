package io.cleancut.dataflow

/**
 * How much a reader takes at a time. Whole epochs are taken, and at least one that has rows; epochs
 * without rows cost nothing.
 *
 * @param epochs
 *   of those with rows
 */
final case class ChannelBounds(epochs: Option[Long], rows: Option[Long], bytes: Option[Long]) {

  /**
   * What is taken of some epochs. It ends with one that has rows: epochs without any are no reason
   * to run one, or two queries that read each other would never come to rest.
   */
  def admitted(pending: Seq[SentEpoch]): Seq[SentEpoch] = {
    var count, allRows, allBytes = 0L
    def fits(limit: Option[Long], sum: Long) = limit.forall(sum <= _)
    val taken = pending.takeWhile { of =>
      of.rows == 0 || {
        count += 1
        allRows += of.rows
        allBytes += of.bytes
        count == 1 || (fits(epochs, count) && fits(rows, allRows) && fits(bytes, allBytes))
      }
    }
    taken.take(taken.lastIndexWhere(_.rows > 0) + 1)
  }
}

object ChannelBounds {
  val None: ChannelBounds = ChannelBounds(Option.empty, Option.empty, Option.empty)
}
