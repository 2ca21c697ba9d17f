package io.cleancut.format.cut

import io.cleancut.base.StoreId

/**
 * What tells one multiset of rows from another: their number and the sum of their hashes, modulo
 * 2^64^. The order does not matter, since a shuffle does not keep it from run to run.
 */
final case class RowsDigest(rows: Long, sum: Long)

object RowsDigest {
  val Empty: RowsDigest = RowsDigest(0L, 0L)

  /** Takes rows by their hashes. Not thread-safe. */
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
 * What a task attempt made of one of its channels: all that came through it, and the part of it
 * that is still in flight.
 */
final case class ChannelReport(
    channel: StoreId,
    input: RowsDigest,
    deferred: RowsDigest
)
