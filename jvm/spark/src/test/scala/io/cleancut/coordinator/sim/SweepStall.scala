package io.cleancut.coordinator.sim

/**
 * A garbage collection, or an expiry by hand, that has stopped before it deletes cuts, until an
 * operation refers to one of these cuts.
 *
 * @param epochs
 *   epochs of the cuts
 * @param isFirst
 *   whether it deletes them before the operation owns the query
 */
final class SweepStall(val epochs: Set[Long], sweep: Baton#Actor, val isFirst: Boolean) {
  var isReleased = false

  /** Whether it has ended, or its process has crashed. */
  def isOver: Boolean = sweep.isFinished
}
