package org.apache.spark.sql.execution.streaming.state.cleancut

import java.util.ArrayDeque

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.cleancut.channels.{ChannelReport, RowsDigest}

/**
 * The rows of a channel that leads to a Python worker, in an attempt that decides for itself. Rows
 * run far ahead of what the function has seen: through Arrow batches, buffers and a socket. So once
 * the task is overtaken, the worker leaves those that the function has not been given, and they
 * stay in flight with what has not been handed on at all. For that the channel keeps a copy of the
 * rows on their way.
 *
 * The function sees in any case the first row, so that no number of epochs that are cut at once can
 * stop the query; rows that would be late in the next epoch; and what comes before those of their
 * keys, so that no key sees its rows out of order. Of the rows on their way it sees all that come
 * before such a one, as the worker leaves only the last of them.
 *
 * @param maxBytes
 *   what stays in flight at most. If more than that has not been handed on, all of it is; older
 *   rows on their way are for the function.
 */
final private[cleancut] class WorkerChannel(
    source: Iterator[UnsafeRow],
    schema: ChannelSchema,
    port: ChannelPort,
    worker: WorkerShare,
    maxBytes: Long
) extends Iterator[UnsafeRow] {
  import WorkerChannel._

  private val input = new RowsDigest.Builder
  // Rows that the worker gets, and the last of them.
  private var handed = 0L
  private val onTheirWay = new ArrayDeque[UnsafeRow]
  private var onTheirWayBytes = 0L
  // What comes behind the decision; until then the source.
  private var rest: Iterator[UnsafeRow] = _
  // The task may be overtaken between the answer that there is a row and the row.
  private var isPromised = false
  private val kept = port.newBuffer()
  private var beyondBound = 0L

  override def hasNext: Boolean = {
    if (rest == null && !isPromised) {
      if (handed > 0 && port.isOvertaken) cut()
      else if (source.hasNext) isPromised = true
      else {
        decide(_ => false)
        rest = Iterator.empty
      }
    }
    isPromised || rest.hasNext
  }

  override def next(): UnsafeRow =
    if (!hasNext) throw new NoSuchElementException("the channel has ended")
    else if (!isPromised) rest.next()
    else {
      isPromised = false
      val row = read()
      if (!schema.isDropped(row)) hand(row)
      row
    }

  /** The worker is done: what it has left stays in flight, and then what was not handed on. */
  def finish(): Unit = {
    val staying = port.newBuffer()
    val deferred = new RowsDigest.Builder
    def keep(row: UnsafeRow): Unit = {
      staying.add(row)
      deferred.add(schema.hash(row))
    }
    worker.skipped.foreach { first =>
      val known = handed - onTheirWay.size
      val rows = onTheirWay.iterator
      (known until first).foreach(_ => rows.next())
      rows.forEachRemaining(row => keep(row))
    }
    kept.iterator.foreach(keep)
    if (staying.size > 0) port.write(staying)
    port.arrived(ChannelReport(port.channel, input.result, deferred.result), beyondBound)
  }

  private def read(): UnsafeRow = {
    val row = source.next()
    input.add(schema.hash(row))
    row
  }

  private def hand(row: UnsafeRow): Unit = {
    handed += 1
    onTheirWay.add(row.copy())
    onTheirWayBytes += row.getSizeInBytes
    if (handed % ForgetEvery == 0) forget(worker.taken)
    while (onTheirWayBytes > maxBytes) forget(handed - onTheirWay.size + 1)
  }

  /** The function has been given the first rows, or is to be. */
  private def forget(rows: Long): Unit =
    while (handed - onTheirWay.size < rows && !onTheirWay.isEmpty)
      onTheirWayBytes -= onTheirWay.poll().getSizeInBytes

  private def cut(): Unit = {
    val left = port.newBuffer()
    // By key, the last row that may not stay.
    val forbidden = mutable.Map.empty[Int, Long]
    while (left.sizeBytes <= maxBytes && source.hasNext) {
      val row = read()
      if (!schema.isDeferrable(row)) forbidden(schema.keyHash(row)) = left.size
      left.add(row)
    }
    if (left.sizeBytes > maxBytes) {
      worker.decide(handed, handed)
      rest = left.iterator ++ Iterator.continually(source).takeWhile(_.hasNext).map(_ => read())
      rest = rest.tapEach(_ => beyondBound += 1)
    } else {
      val on = port.newBuffer()
      left.iterator.zipWithIndex.foreach { case (row, number) =>
        val isForbidden = forbidden.get(schema.keyHash(row)).exists(number <= _)
        if (isForbidden) on.add(row) else kept.add(row)
      }
      decide(forbidden.contains)
      rest = on.iterator
    }
  }

  /**
   * @param isBehind
   *   whether rows of a key are handed on behind the decision
   */
  private def decide(isBehind: Int => Boolean): Unit = {
    var bytes = kept.sizeBytes
    var stop = handed
    val rows = onTheirWay.descendingIterator
    var mayStay = true
    while (mayStay && rows.hasNext) {
      val row = rows.next()
      bytes += row.getSizeInBytes
      mayStay = bytes <= maxBytes && schema.isDeferrable(row) && !isBehind(schema.keyHash(row))
      if (mayStay) stop -= 1
    }
    worker.decide(math.max(stop, 1), handed)
  }
}

private object WorkerChannel {
  private val ForgetEvery = 256
}
