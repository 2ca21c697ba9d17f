package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.cutstore.gc.UnreadableSavepoint
import io.cleancut.cutstore.usage.UsageBook
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut, RunId, StoreTime}
import io.cleancut.history.SlowTally
import io.cleancut.protocol.EpochProgress

/**
 * The status of a query.
 *
 * @param run
 *   the latest known run, if any
 * @param committed
 *   last committed epoch
 * @param slowest
 *   slowest stores of the current epoch, among those that have committed
 * @param last
 *   last epoch that this driver has committed
 * @param usage
 *   usage of all processes for this query, since each of them began
 * @param channels
 *   shuffle inputs in the last cut
 * @param courses
 *   how the shuffle inputs reached the barrier, if it is known
 * @param reasons
 *   why operators are not executed as the settings request
 * @param slow
 *   slow epochs of this run
 * @param unreadableSavepoints
 *   savepoints that the last garbage collection of this run could not read
 * @param unpipelined
 *   why each epoch of this run waits for its cut; None if the next epoch runs meanwhile
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
    reasons: OperatorReasons,
    slow: SlowTally = SlowTally.None,
    unreadableSavepoints: Seq[UnreadableSavepoint] = Nil,
    unpipelined: Option[String] = None
) {

  /**
   * Operators that receive more rows than they process, by operator ID, with an explanation: they
   * store as many in-flight rows as allowed, and their epochs wait for the rest.
   */
  def overloaded: Map[Long, String] = {
    val full = courses.toSeq.filter(_._2.rowsBeyondBound > 0)
    full.groupBy(_._1.operator).map { case (operator, inputs) =>
      val partitions = inputs.map(_._1.partition).distinct.sorted
      val more = if (partitions.size > CutsStatus.Named) ", ..." else ""
      val rows = inputs.map(_._2.rowsBeyondBound).sum
      operator -> (s"$rows rows did not stay in flight, because " +
        "maxInFlightBytes was reached, and the epoch waited for them; " +
        s"partitions ${partitions.take(CutsStatus.Named).mkString(", ")}$more")
    }
  }
}

private[coordinator] object CutsStatus {
  private val Named = 10
}

/**
 * A committed epoch.
 *
 * @param writeMs
 *   duration of the write of its cut, which the cut itself cannot contain
 */
final case class CommittedEpoch(cut: Cut, writeMs: Long) {

  /** Time from the end of its sink until its cut existed; None if it is unknown. */
  def cutLagMs: Option[Long] = cut.timings.get("gateMs").map(_ + writeMs)
}
