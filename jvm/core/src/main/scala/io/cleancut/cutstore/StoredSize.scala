package io.cleancut.cutstore

import io.cleancut.cutstore.usage.UsageBook

/**
 * About how much of a query lies in its store, as its driver knows without asking for it: what was
 * listed last, what was written after that, and what was deleted.
 *
 * @param written
 *   bytes that had been written when it was listed
 */
final private[cleancut] case class StoredSize(listedBytes: Long, written: Long) {

  /**
   * @param used
   *   what all processes have written by now
   * @param archive
   *   through which the driver writes cuts and pages
   */
  def now(used: UsageBook.Shares, archive: CutArchive): Long =
    listedBytes + Math.max(0L, StoredSize.bytesWritten(used, archive) - written)

  /** The same without what was deleted. */
  def minus(deletedBytes: Long): StoredSize = copy(listedBytes = listedBytes - deletedBytes)
}

private[cleancut] object StoredSize {

  def listed(bytes: Long, used: UsageBook.Shares, archive: CutArchive): StoredSize =
    StoredSize(bytes, bytesWritten(used, archive))

  private def bytesWritten(used: UsageBook.Shares, archive: CutArchive) =
    (used.driver + used.executors).written.segmentBytes + archive.bytesWritten
}
