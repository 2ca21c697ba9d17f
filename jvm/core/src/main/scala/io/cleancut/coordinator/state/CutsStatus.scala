package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.cutstore.gc.UnreadableSavepoint
import io.cleancut.cutstore.usage.UsageBook
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut, RunId, StoreTime}
import io.cleancut.history.SlowTally
import io.cleancut.protocol.EpochProgress

/**
 * Where a query stands.
 *
 * @param run
 *   the one that is believed, once it has been heard of
 * @param committed
 *   the last epoch that has been
 * @param slowest
 *   stores of the epoch that is under way, among those that have committed
 * @param last
 *   the last epoch that this driver has committed
 * @param usage
 *   of all processes for this query, since each of them began
 * @param channels
 *   as the last cut has them
 * @param courses
 *   how these came to the barrier, where it is known
 * @param aligned
 *   why operators are not captured, by their ids
 * @param slow
 *   which epochs of this run were slow
 * @param unreadableSavepoints
 *   savepoints that the last sweep of this run could not read
 */
final case class CutsStatus(
    location: String,
    run: Option[RunId],
    committed: Option[Long],
    epoch: Option[EpochProgress],
    slowest: Seq[StoreTime],
    last: Option[CommittedEpoch],
    usage: UsageBook.Shares,
    channels: Seq[ChannelReport],
    courses: Map[StoreId, ChannelCourse],
    aligned: Map[Long, String],
    slow: SlowTally = SlowTally.None,
    unreadableSavepoints: Seq[UnreadableSavepoint] = Nil
) {

  /**
   * Which operators get more rows than they take in, by their ids, and what comes of it: they hold
   * in flight what they may, and their epochs wait for what is beyond.
   */
  def overloaded: Map[Long, String] = {
    val full = courses.toSeq.filter(_._2.rowsBeyondBound > 0)
    full.groupBy(_._1.operator).map { case (operator, of) =>
      val partitions = of.map(_._1.partition).distinct.sorted
      val more = if (partitions.size > CutsStatus.Named) ", ..." else ""
      operator -> (s"${of.map(_._2.rowsBeyondBound).sum} rows did not stay in flight, because " +
        "their channels may keep no more than maxInFlightBytes, and the epoch waited for them; " +
        s"partitions ${partitions.take(CutsStatus.Named).mkString(", ")}$more")
    }
  }
}

private[coordinator] object CutsStatus {
  private val Named = 10
}

/**
 * An epoch that was committed.
 *
 * @param writeMs
 *   what the write of its cut took, which the cut cannot tell itself
 */
final case class CommittedEpoch(cut: Cut, writeMs: Long)
