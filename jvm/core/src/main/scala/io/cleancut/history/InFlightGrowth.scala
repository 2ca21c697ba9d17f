package io.cleancut.history

import scala.collection.mutable

/**
 * A growth of in-flight rows over the last epochs of a run.
 *
 * @param epochs
 *   number of epochs
 * @param fromRows
 *   in-flight rows after the first of them
 * @param toRows
 *   in-flight rows after the last of them
 */
final case class InFlightGrowth(epochs: Int, fromRows: Long, toRows: Long) {

  /** A sentence without its end. */
  def description: String =
    s"in-flight rows grew from $fromRows to $toRows over the last $epochs epochs: the query " +
      "receives more rows than its stragglers process"
}

/** Detects growth in the epochs of one run, which are passed in order. Pure. */
final class InFlightWatch {
  import InFlightWatch._

  private val recent = mutable.Queue.empty[Long]

  /** A run has begun. */
  def clear(): Unit = recent.clear()

  /**
   * The growth up to an epoch; None if its rows do not exceed twice those of the first remembered
   * epoch, or if they decreased in more than one of the epochs in between.
   */
  def add(rows: Long): Option[InFlightGrowth] = {
    recent += rows
    if (recent.size > Epochs) recent.dequeue()
    val steps = recent.zip(recent.drop(1))
    Option.when(
      recent.size == Epochs && rows >= FewestRows && rows >= Times * Math.max(1L, recent.head) &&
        steps.count { case (before, after) => after < before } <= MaxDecreases &&
        rows >= recent.max
    )(InFlightGrowth(Epochs, recent.head, rows))
  }
}

private object InFlightWatch {
  private val Epochs = 8
  private val Times = 2
  private val MaxDecreases = 1

  /** Fewer rows are processed in a moment. */
  private val FewestRows = 100L
}
