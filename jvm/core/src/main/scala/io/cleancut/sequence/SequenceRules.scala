package io.cleancut.sequence

/** The action for a gap after its timeout. */
sealed abstract class OnGap(val name: String)

object OnGap {

  /** Reports the gap and continues to wait. */
  case object Wait extends OnGap("wait")

  /** Fails the query. */
  case object Fail extends OnGap("fail")

  /** Skips the gap. */
  case object Skip extends OnGap("skip")

  val all: Seq[OnGap] = Seq(Wait, Fail, Skip)
}

/**
 * How rows are ordered.
 *
 * @param isDense
 *   whether numbers are consecutive; if not, rows name their predecessors
 * @param first
 *   first number of each key, if it is known; only for dense numbers
 * @param timeoutMs
 *   timeout of a gap in milliseconds
 * @param maxHeld
 *   limit of the held rows of one key
 */
final case class SequenceRules(
    isDense: Boolean,
    first: Option[Long],
    timeoutMs: Option[Long],
    onGap: OnGap,
    maxHeld: Int
)

/** Accesses the columns of a row. */
trait SequencedRows[R] {

  /** @throws io.cleancut.error.CleancutException CLEANCUT_SEQUENCE_BROKEN if it has no number */
  def number(row: R): Long

  /** The number of its predecessor; [[KeyProgress.None]] if it has none. */
  def previous(row: R): Long

  /**
   * Time from which it counts as waiting, in milliseconds since 1970 by the clock of the timeout.
   */
  def since(row: R): Long
}

/** The held rows of one key, by number. */
trait HeldRows[R] {
  def put(number: Long, row: R): Unit
  def has(number: Long): Boolean

  /** A copy of an existing row. */
  def get(number: Long): R
  def remove(number: Long): Unit

  /** All numbers, unordered. */
  def numbers: Iterator[Long]
}
