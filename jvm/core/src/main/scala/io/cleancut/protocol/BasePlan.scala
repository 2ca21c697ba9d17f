package io.cleancut.protocol

/** Decides when a store gets a new base. */
object BasePlan {

  /**
   * The known frames of a store: the newest version, its base, and the deltas in between.
   *
   * @param hasForeignRows
   *   whether the base references frames with rows of other stores, or of several stores
   */
  final case class Position(
      latest: Long,
      base: Long,
      deltaBytes: Long,
      baseBytes: Long,
      minDeltas: Int,
      hasForeignRows: Boolean = false
  )

  /**
   * A base costs a write of all live rows, and saves later loads the deltas before it. So it waits
   * until the deltas have a quarter of the base's size, but at most [[Patience]] times the number
   * in Spark's `minDeltasForSnapshot`. So a load never opens many small files, and Spark's
   * monitoring of lagging snapshots (five times that number) does not report them.
   *
   * A base with foreign rows is replaced after the next delta: until then each load reads them.
   */
  def isDue(position: Position): Boolean = {
    val deltas = position.latest - position.base
    if (position.hasForeignRows) deltas > 0
    else
      deltas >= Math.max(position.minDeltas, 1) &&
      (position.deltaBytes * 4 >= position.baseBytes || deltas >= Patience * position.minDeltas)
  }

  /** Whether it has been due for so long that maintenance seems to be stuck. */
  def isOverdue(position: Position): Boolean =
    position.latest - position.base >= Patience * Math.max(position.minDeltas, 1)

  private val Patience = 4L
}
