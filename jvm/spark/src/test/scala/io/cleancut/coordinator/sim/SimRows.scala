package io.cleancut.coordinator.sim

import java.util.SplittableRandom

import scala.util.Random

/**
 * Rows of the simulated query. A row is a number plus a multiple of [[SimPlan.Numbers]] that the
 * run adds.
 *
 * In most runs all rows differ, and their order is random. In grouped runs few rows differ, so
 * other rows are between equal rows, and the rows of a key keep their order.
 *
 * @param isSorted
 *   whether the rows of a key are sorted by a second column in each epoch
 * @param splitsGroups
 *   whether only some rows of a key may stay in flight
 * @param maxInFlight
 *   limit of in-flight rows of a task
 */
final case class SimRows(
    isGrouped: Boolean,
    isSorted: Boolean,
    splitsGroups: Boolean,
    maxInFlight: Int
) {
  import SimRows._

  /** Limit of new rows of an epoch, exclusive. */
  def maxNew: Int = if (isGrouped) MaxGrouped else MaxSingle

  /** A row of the input. The second column does not decrease, as in a sequence. */
  def at(index: Int): Int =
    if (!isGrouped) index
    else {
      val drawn = new SplittableRandom(index.toLong).nextInt(Keys * Values)
      drawn + Keys * Values * (if (isSorted) index / Equal else 0)
    }

  def key(row: Int): Int = {
    val number = SimPlan.numberOf(row)
    if (isGrouped) number % Keys else number
  }

  /** The second column. */
  def position(row: Int): Int = SimPlan.numberOf(row) / (Keys * Values)

  /** Whether a row may not stay in flight. */
  def isLate(row: Int): Boolean = SimPlan.numberOf(row) % Late == 0

  /** The new rows of an epoch as the exchange of an attempt returns them. */
  def exchanged(rows: Vector[Int], random: Random): Vector[Int] =
    if (isGrouped) sorted(rows) else random.shuffle(rows)

  def sorted(rows: Vector[Int]): Vector[Int] =
    if (isSorted) rows.sortBy(row => (key(row), position(row))) else byKey(rows)

  /** Rows by key; equal if each key has the same rows, in the same order in grouped runs. */
  def byKey(rows: Vector[Int]): Vector[Int] = if (isGrouped) rows.sortBy(key) else rows.sorted
}

object SimRows {
  val Single: SimRows =
    SimRows(isGrouped = false, isSorted = false, splitsGroups = true, maxInFlight = Int.MaxValue)

  def draw(random: Random): SimRows = SimRows(
    isGrouped = true,
    isSorted = random.nextBoolean(),
    splitsGroups = random.nextInt(4) > 0,
    maxInFlight = Limits(random.nextInt(Limits.size))
  )

  val Limits: IndexedSeq[Int] = IndexedSeq(2, 8, Int.MaxValue, Int.MaxValue)
  private val Keys = 2
  private val Values = 3

  /** Rows with the same second column. */
  private val Equal = 12
  private val MaxSingle = 6
  private val MaxGrouped = 30
  private val Late = 7
}
