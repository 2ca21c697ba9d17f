package io.cleancut.cutstore.gc

/**
 * Which cuts stay beside those that savepoints keep: those of the last epochs, and those that are
 * young enough.
 *
 * @param epochs
 *   how many before the last one
 * @param ms
 *   the age; 0 keeps none for it
 */
final case class CutRetention(epochs: Int, ms: Long = 0L) {

  /** The oldest epoch whose cut stays by its number when this one has its. */
  def oldestByNumber(epoch: Long): Long = epoch - epochs

  /** The oldest epoch whose cut stays. */
  def oldest(epoch: Long, ages: CutAges): Long =
    ages.firstYoung().fold(oldestByNumber(epoch))(Math.min(oldestByNumber(epoch), _))
}
