package io.cleancut.cutstore

import io.cleancut.cutstore.usage.UsageBook

/**
 * The approximate size of a query in its object store, as its driver knows it without requests: the
 * size at the last listing, plus written bytes, minus deleted bytes.
 *
 * @param written
 *   bytes that had been written at the last listing
 */
final private[cleancut] case class StoredSize(listedBytes: Long, written: Long) {

  /**
   * @param used
   *   bytes that all processes have written so far
   * @param archive
   *   archive through which the driver writes cuts and pages
   */
  def now(used: UsageBook.Shares, archive: CutArchive): Long =
    listedBytes + Math.max(0L, StoredSize.bytesWritten(used, archive) - written)

  /** The same without deleted bytes. */
  def minus(deletedBytes: Long): StoredSize = copy(listedBytes = listedBytes - deletedBytes)
}

private[cleancut] object StoredSize {

  def listed(bytes: Long, used: UsageBook.Shares, archive: CutArchive): StoredSize =
    StoredSize(bytes, bytesWritten(used, archive))

  private def bytesWritten(used: UsageBook.Shares, archive: CutArchive) =
    (used.driver + used.executors).written.segmentBytes + archive.bytesWritten
}
