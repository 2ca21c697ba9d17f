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
 * The rows of a shuffle input that feeds a Python worker, in an attempt that decides. Rows are far
 * ahead of the function, in Arrow batches, buffers and a socket. Once the task is overtaken, the
 * worker discards rows that the function has not received, and they stay in flight together with
 * rows that were not emitted. For that purpose the iterator keeps a copy of the emitted rows.
 *
 * The function always receives the first row, so that repeatedly overtaken epochs make progress;
 * rows that would be late in the next epoch; and the rows before those of their keys, so that the
 * order within a key is kept. Of the emitted rows, it receives all rows before such a row, because
 * the worker only discards the last ones.
 *
 * @param maxBytes
 *   limit of in-flight rows. Above it, rows that were not emitted are emitted until the rest fits;
 *   then emitted rows are processed
 * @param splitsGroups
 *   whether the function may receive some rows of a key and others not. If not, the worker only
 *   discards complete groups
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
  // Rows sent to the worker, and the last of them.
  private var emitted = 0L
  private val onTheirWay = new ArrayDeque[UnsafeRow]
  private var onTheirWayBytes = 0L
  // The source after the decision; before it the original source.
  private var rest: Iterator[UnsafeRow] = _
  // The task may be overtaken between hasNext and next.
  private var isPromised = false
  private val kept = port.newBuffer()
  private var beyondBound = 0L

  override def hasNext: Boolean = {
    if (rest == null && !isPromised) {
      if (emitted > 0 && port.isOvertaken && !isInGroup) cut()
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
      if (!schema.isDropped(row)) emit(row)
      row
    }

  /** Known once the worker has received all rows. */
  override def hasInFlight(keyHash: Int): Boolean = inFlight(keyHash)

  private lazy val inFlight: Set[Int] = {
    val keys = mutable.Set.empty[Int]
    foreachInFlight(row => keys += schema.keyHash(row))
    keys.toSet
  }

  /**
   * The worker is done: rows that it discarded stay in flight, and then rows that were not emitted.
   */
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
      val known = emitted - onTheirWay.size
      val rows = onTheirWay.iterator
      (known until first).foreach(_ => rows.next())
      rows.forEachRemaining(row => use(row))
    }
    kept.iterator.foreach(use)
  }

  private def isInGroup: Boolean = !splitsGroups && source.hasNext && group.continues(source.head)

  private def take(): UnsafeRow = {
    val row = source.next()
    read.add(schema.hash(row))
    row
  }

  private def emit(row: UnsafeRow): Unit = {
    emitted += 1
    group.emitted(row)
    onTheirWay.add(row.copy())
    onTheirWayBytes += row.getSizeInBytes
    if (emitted % ForgetEvery == 0) forget(worker.taken)
    while (onTheirWayBytes > maxBytes) forget(emitted - onTheirWay.size + 1)
  }

  /** The function has received the first rows, or will receive them. */
  private def forget(rows: Long): Unit =
    while (emitted - onTheirWay.size < rows && !onTheirWay.isEmpty)
      onTheirWayBytes -= onTheirWay.poll().getSizeInBytes

  private def cut(): Unit = {
    val left = port.newBuffer()
    // By key, the last row that must not stay.
    val forbidden = mutable.Map.empty[Int, Long]
    while (source.hasNext) {
      val row = take()
      if (!schema.isDeferrable(row)) forbidden(schema.keyHash(row)) = left.size
      left.add(row)
    }
    def rows = left.iterator.zipWithIndex.map { case (row, number) =>
      val hash = schema.keyHash(row)
      (row, hash, forbidden.get(hash).exists(!splitsGroups || number <= _))
    }
    // Iterated a second time only if some rows are emitted.
    var bytes =
      if (left.sizeBytes <= maxBytes) left.sizeBytes
      else rows.collect { case (row, _, false) => row.getSizeInBytes.toLong }.sum
    val on = port.newBuffer()
    val behind = mutable.Set.empty[Int]
    rows.foreach { case (row, hash, isForbidden) =>
      val isBeyond = !isForbidden && (bytes > maxBytes || group.continues(row))
      if (isBeyond) {
        bytes -= row.getSizeInBytes
        beyondBound += 1
        group.emitted(row)
      }
      if (isBeyond || isForbidden) {
        on.add(row)
        behind += hash
      } else kept.add(row)
    }
    decide(behind)
    rest = on.iterator
  }

  /**
   * @param isBehind
   *   whether rows of a key are emitted after the decision
   */
  private def decide(isBehind: Int => Boolean): Unit = {
    var bytes = kept.sizeBytes
    var stop, at = emitted
    val rows = onTheirWay.descendingIterator.asScala.buffered
    var mayStay = true
    while (mayStay && rows.hasNext) {
      val row = rows.next()
      bytes += row.getSizeInBytes
      mayStay = bytes <= maxBytes && schema.isDeferrable(row) && !isBehind(schema.keyHash(row))
      if (mayStay) {
        at -= 1
        // The function receives the rows before the known ones.
        val isFirst = rows.headOption.exists(schema.keyHash(_) != schema.keyHash(row))
        if (splitsGroups || isFirst) stop = at
      }
    }
    worker.decide(math.max(stop, 1), emitted)
  }
}

private[cleancut] object WorkerChannel {
  private val ForgetEvery = 256
}
