package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import java.util.ArrayDeque

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.{
  CapturingChannel,
  ChannelPort,
  ChannelSchema,
  OpenGroup
}

import io.cleancut.format.cut.{ChannelReport, RowsDigest}

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
 *   what stays in flight at most. Of rows that have not been handed on, the first are, until the
 *   rest may stay; then rows on their way are for the function.
 * @param splitsGroups
 *   whether the function may see some rows of a key and others not. If not, the worker leaves whole
 *   groups only.
 */
final private[cleancut] class WorkerChannel(
    input: Iterator[UnsafeRow],
    schema: ChannelSchema,
    port: ChannelPort,
    worker: WorkerShare,
    maxBytes: Long,
    splitsGroups: Boolean
) extends CapturingChannel {
  import WorkerChannel._

  private val source = input.buffered
  private val read = new RowsDigest.Builder
  private val group = new OpenGroup(schema, splitsGroups)
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
      if (handed > 0 && port.isOvertaken && !isInGroup) cut()
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
      val row = take()
      if (!schema.isDropped(row)) hand(row)
      row
    }

  /** Known once the worker has received all rows. */
  override def hasInFlight(keyHash: Int): Boolean = inFlight(keyHash)

  private lazy val inFlight: Set[Int] = {
    val keys = mutable.Set.empty[Int]
    foreachInFlight(row => keys += schema.keyHash(row))
    keys.toSet
  }

  /** The worker is done: what it has left stays in flight, and then what was not handed on. */
  def finish(): Unit = {
    val staying = port.newBuffer()
    val deferred = new RowsDigest.Builder
    def keep(row: UnsafeRow): Unit = {
      staying.add(row)
      deferred.add(schema.hash(row))
    }
    foreachInFlight(keep)
    if (staying.size > 0) port.write(staying)
    port.arrived(ChannelReport(port.channel, read.result, deferred.result), beyondBound)
  }

  private def foreachInFlight(use: UnsafeRow => Unit): Unit = {
    worker.skipped.foreach { first =>
      val known = handed - onTheirWay.size
      val rows = onTheirWay.iterator
      (known until first).foreach(_ => rows.next())
      rows.forEachRemaining(row => use(row))
    }
    kept.iterator.foreach(use)
  }

  private def isInGroup: Boolean = !splitsGroups && source.hasNext && group.goesOn(source.head)

  private def take(): UnsafeRow = {
    val row = source.next()
    read.add(schema.hash(row))
    row
  }

  private def hand(row: UnsafeRow): Unit = {
    handed += 1
    group.handed(row)
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
    while (source.hasNext) {
      val row = take()
      if (!schema.isDeferrable(row)) forbidden(schema.keyHash(row)) = left.size
      left.add(row)
    }
    def rows = left.iterator.zipWithIndex.map { case (row, number) =>
      val of = schema.keyHash(row)
      (row, of, forbidden.get(of).exists(!splitsGroups || number <= _))
    }
    // Looked at a second time only where some are handed on for it.
    var bytes =
      if (left.sizeBytes <= maxBytes) left.sizeBytes
      else rows.collect { case (row, _, false) => row.getSizeInBytes.toLong }.sum
    val on = port.newBuffer()
    val behind = mutable.Set.empty[Int]
    rows.foreach { case (row, of, isForbidden) =>
      val isBeyond = !isForbidden && (bytes > maxBytes || group.goesOn(row))
      if (isBeyond) {
        bytes -= row.getSizeInBytes
        beyondBound += 1
        group.handed(row)
      }
      if (isBeyond || isForbidden) {
        on.add(row)
        behind += of
      } else kept.add(row)
    }
    decide(behind)
    rest = on.iterator
  }

  /**
   * @param isBehind
   *   whether rows of a key are handed on behind the decision
   */
  private def decide(isBehind: Int => Boolean): Unit = {
    var bytes = kept.sizeBytes
    var stop, at = handed
    val rows = onTheirWay.descendingIterator.asScala.buffered
    var mayStay = true
    while (mayStay && rows.hasNext) {
      val row = rows.next()
      bytes += row.getSizeInBytes
      mayStay = bytes <= maxBytes && schema.isDeferrable(row) && !isBehind(schema.keyHash(row))
      if (mayStay) {
        at -= 1
        // The rows before those that are known are for the function.
        val isFirst = rows.headOption.exists(schema.keyHash(_) != schema.keyHash(row))
        if (splitsGroups || isFirst) stop = at
      }
    }
    worker.decide(math.max(stop, 1), handed)
  }
}

private[cleancut] object WorkerChannel {
  private val ForgetEvery = 256
}
