package io.cleancut.format.cut

import io.cleancut.base.StoreId

/**
 * Digest of a multiset of rows: their number and the sum of their hashes, modulo 2^64^. It is
 * independent of the order, because a shuffle does not keep the order between runs.
 */
final case class RowsDigest(rows: Long, sum: Long)

object RowsDigest {
  val Empty: RowsDigest = RowsDigest(0L, 0L)

  /** Adds rows by their hashes. Not thread-safe. */
  final class Builder {
    private var rows = 0L
    private var sum = 0L

    def add(hash: Long): Unit = {
      rows += 1
      sum += hash
    }

    def result: RowsDigest = RowsDigest(rows, sum)
  }
}

/**
 * The report of a task attempt on one of its shuffle inputs: the digest of all rows, and of the
 * rows that stay in flight.
 */
final case class ChannelReport(
    channel: StoreId,
    input: RowsDigest,
    deferred: RowsDigest
)
