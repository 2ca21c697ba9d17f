package io.cleancut.sequence

/** What becomes of a gap whose time is over. */
sealed abstract class OnGap(val name: String)

object OnGap {

  /** It is reported, and waited for. */
  case object Wait extends OnGap("wait")

  /** The query fails. */
  case object Fail extends OnGap("fail")

  /** The key goes on behind it. */
  case object Skip extends OnGap("skip")

  val all: Seq[OnGap] = Seq(Wait, Fail, Skip)
}

/**
 * How rows are put in sequence.
 *
 * @param isDense
 *   whether each number follows the one below it; if not, rows name their predecessors
 * @param first
 *   with which number each key begins, where that is known; only of dense numbers
 * @param timeoutMs
 *   after how many milliseconds a gap is given up
 * @param maxHeld
 *   how many rows of one key are held at most
 */
final case class SequenceRules(
    isDense: Boolean,
    first: Option[Long],
    timeoutMs: Option[Long],
    onGap: OnGap,
    maxHeld: Int
)

/** What is read of a row. */
trait SequencedRows[R] {

  /** @throws io.cleancut.error.CleancutException CLEANCUT_SEQUENCE_BROKEN, it has none */
  def number(row: R): Long

  /** The number before it; [[KeyProgress.None]] if it has none. */
  def previous(row: R): Long

  /** From when on it counts as waiting; milliseconds since 1970, of the clock of the timeout. */
  def since(row: R): Long
}

/** The rows of one key that are held, by their numbers. */
trait HeldRows[R] {
  def put(number: Long, row: R): Unit
  def has(number: Long): Boolean

  /** A row of its own, which is there. */
  def get(number: Long): R
  def remove(number: Long): Unit

  /** All of them, in no order. */
  def numbers: Iterator[Long]
}
