package io.cleancut.history

/**
 * The slow epochs of a run.
 *
 * @param counts
 *   number by cause
 * @param last
 *   the last slow epoch
 */
final case class SlowTally(counts: Map[String, Long], last: Option[SlowTally.Last]) {

  /** Number for all causes. */
  def total: Long = counts.values.sum

  /** The tally with one more slow epoch. */
  def and(epoch: Long, why: SlowReason): SlowTally = {
    val more = counts.getOrElse(why.kind, 0L) + 1
    SlowTally(counts.updated(why.kind, more), Some(SlowTally.Last(epoch, why)))
  }
}

object SlowTally {
  val None: SlowTally = SlowTally(Map.empty, Option.empty)

  final case class Last(epoch: Long, why: SlowReason)
}
