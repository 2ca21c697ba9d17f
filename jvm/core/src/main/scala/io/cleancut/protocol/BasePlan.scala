package io.cleancut.protocol

/** Decides when a store gets a new base. */
object BasePlan {

  /** What is known of a store's frames: the newest version, its base, and what lies between. */
  final case class Position(
      latest: Long,
      base: Long,
      deltaBytes: Long,
      baseBytes: Long,
      minDeltas: Int
  )

  /**
   * A base costs a write of all live rows, and saves a later load the deltas before it. So it waits
   * until the deltas weigh a quarter of the base; yet never for more than [[Patience]] times the
   * number that Spark's `minDeltasForSnapshot` asks for, so that a load never opens many small
   * files, and so that Spark's watch over lagging snapshots (five times that number) stays quiet.
   */
  def isDue(position: Position): Boolean = {
    val deltas = position.latest - position.base
    deltas >= Math.max(position.minDeltas, 1) &&
    (position.deltaBytes * 4 >= position.baseBytes || deltas >= Patience * position.minDeltas)
  }

  /** Whether it has been due for so long that nobody seems to look. */
  def isOverdue(position: Position): Boolean =
    position.latest - position.base >= Patience * Math.max(position.minDeltas, 1)

  private val Patience = 4L
}
