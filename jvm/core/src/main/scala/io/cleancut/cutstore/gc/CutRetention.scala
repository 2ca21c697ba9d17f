package io.cleancut.cutstore.gc

/**
 * Retention of cuts, in addition to savepoints: the cuts of the last epochs, and those below an
 * age.
 *
 * @param epochs
 *   number of epochs before the last one
 * @param ms
 *   the age; 0 retains no cut for its age
 */
final case class CutRetention(epochs: Int, ms: Long = 0L) {

  /** The oldest epoch whose cut is retained by number after an epoch. */
  def oldestByNumber(epoch: Long): Long = epoch - epochs

  /** The oldest epoch whose cut is retained. */
  def oldest(epoch: Long, ages: CutAges): Long =
    ages.firstYoung().fold(oldestByNumber(epoch))(Math.min(oldestByNumber(epoch), _))
}
