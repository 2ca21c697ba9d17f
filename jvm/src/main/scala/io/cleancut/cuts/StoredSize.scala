package io.cleancut.cuts

/**
 * About how much of a query lies in its store, as its driver knows without asking for it: what was
 * listed last, and the segments that were written after that.
 *
 * @param written
 *   bytes of segments that had been written when it was listed
 */
final private[cuts] case class StoredSize(listedBytes: Long, written: Long) {

  /** @param used what all processes have written by now */
  def now(used: UsageBook.Shares): Long =
    listedBytes + Math.max(0L, StoredSize.segmentBytes(used) - written)
}

private[cuts] object StoredSize {

  def listed(bytes: Long, used: UsageBook.Shares): StoredSize =
    StoredSize(bytes, segmentBytes(used))

  private def segmentBytes(used: UsageBook.Shares) =
    (used.driver + used.executors).written.segmentBytes
}
