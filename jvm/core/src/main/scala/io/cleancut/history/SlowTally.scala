package io.cleancut.history

/**
 * Which epochs of a run were slow.
 *
 * @param counts
 *   how many, by the kinds of their reasons
 * @param last
 *   the last of them
 */
final case class SlowTally(counts: Map[String, Long], last: Option[SlowTally.Last]) {

  /** How many for all reasons. */
  def total: Long = counts.values.sum

  /** With one more, behind the others. */
  def and(epoch: Long, why: SlowReason): SlowTally = {
    val more = counts.getOrElse(why.kind, 0L) + 1
    SlowTally(counts.updated(why.kind, more), Some(SlowTally.Last(epoch, why)))
  }
}

object SlowTally {
  val None: SlowTally = SlowTally(Map.empty, Option.empty)

  final case class Last(epoch: Long, why: SlowReason)
}
