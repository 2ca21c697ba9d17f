package io.cleancut.cuts

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

  /**
   * The oldest epoch whose cut stays when this one has its. The store tells the ages, by a listing
   * of the cuts where any might go that is young.
   */
  def oldest(archive: CutArchive, epoch: Long, nowMs: Long): Long = {
    val byNumber = epoch - epochs
    if (ms == 0L || byNumber <= 0L) byNumber
    else archive.firstSince(nowMs - ms).fold(byNumber)(Math.min(byNumber, _))
  }
}
