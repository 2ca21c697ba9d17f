package org.apache.spark.sql.execution.streaming.state.cleancut.capture

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.cleancut.base.StoreId
import io.cleancut.format.cut.{ChannelReport, RowsDigest}

/** The task operations that the iterator of a shuffle input requires. */
private[cleancut] trait ChannelPort {
  def channel: StoreId

  /** Whether the epoch no longer waits for this task. Checked between two rows. */
  def isOvertaken: Boolean

  def newBuffer(): RowBuffer

  /** Makes in-flight rows durable. */
  def write(kept: RowBuffer): Unit

  /**
   * All rows have been read and the in-flight rows written.
   *
   * @param beyondBound
   *   rows that were emitted because the limit of in-flight rows was reached
   */
  def arrived(report: ChannelReport, beyondBound: Long): Unit

  /** The input differs from the input of the attempt that decided. */
  def differs(decided: ChannelReport, actual: ChannelReport): Throwable
}

/** Functions of the rows of a shuffle input. For one thread at a time. */
private[cleancut] trait ChannelSchema {

  /** Hash of the complete row. */
  def hash(row: UnsafeRow): Long

  /** Hash of the key; equal for rows of one key. */
  def keyHash(row: UnsafeRow): Int

  /** Whether no filter of late rows would drop it in the next epoch. */
  def isDeferrable(row: UnsafeRow): Boolean

  /** Whether the operator drops it in this epoch, before its function receives it. */
  def isDropped(row: UnsafeRow): Boolean
}

/** The key of the row that was emitted last, if the rows of a key must stay together. */
final private[cleancut] class OpenGroup(schema: ChannelSchema, splitsGroups: Boolean) {
  private var key: Option[Int] = None

  def emitted(row: UnsafeRow): Unit = if (!splitsGroups) key = Some(schema.keyHash(row))

  /** Whether the row must be emitted because earlier rows of its key were. */
  def continues(row: UnsafeRow): Boolean = key.exists(_ == schema.keyHash(row))
}

/** Rows of a shuffle input in an attempt that may leave some of them in flight. */
private[cleancut] trait CapturingChannel extends Iterator[UnsafeRow] {

  /**
   * Whether a key has in-flight rows, as far as the shuffle input has been read. The answer is
   * final after the end of the shuffle input.
   */
  def hasInFlight(keyHash: Int): Boolean
}

/** An iterator that calls `end` exactly once. */
abstract private[cleancut] class ChannelIterator extends CapturingChannel {
  private var ready: UnsafeRow = _
  private var hasEnded = false

  final override def hasNext: Boolean = {
    while (ready == null && !hasEnded) {
      ready = advance()
      if (ready == null && !isMore) {
        hasEnded = true
        end()
      }
    }
    ready != null
  }

  final override def next(): UnsafeRow = {
    if (!hasNext) throw new NoSuchElementException("the channel has ended")
    val row = ready
    ready = null
    row
  }

  /** The next row to emit; null if the current row is not emitted. */
  protected def advance(): UnsafeRow

  protected def isMore: Boolean

  protected def end(): Unit
}

/**
 * Rows of a shuffle input in an attempt that decides: the rows of the previous epoch, then the rows
 * of the exchange, until the task is overtaken. The remaining rows stay in flight, with two
 * exceptions: the first row, so that repeatedly overtaken epochs make progress, and rows that would
 * be late in the next epoch. Such a row is emitted. If rows of its key have been captured, all
 * captured rows are emitted before it, so that the order within a key is kept.
 *
 * @param maxBytes
 *   limit of in-flight rows; above it the oldest rows are emitted, until the rest fits
 * @param splitsGroups
 *   whether some rows of a key may stay and others not. If not, the rows of a key must be adjacent
 */
final private[cleancut] class DecidingChannel(
    source: Iterator[UnsafeRow],
    schema: ChannelSchema,
    port: ChannelPort,
    maxBytes: Long,
    splitsGroups: Boolean
) extends ChannelIterator {
  private val input = new RowsDigest.Builder
  private var deferred = new RowsDigest.Builder
  private var kept = port.newBuffer()
  private val keptKeys = mutable.Set.empty[Int]
  private val group = new OpenGroup(schema, splitsGroups)
  private var back = Iterator.empty[UnsafeRow]
  private var behindBack: UnsafeRow = _
  // After returned rows that stay.
  private var behind = Iterator.empty[UnsafeRow]
  private var isFirst = true
  private var beyondBound = 0L

  override def hasInFlight(keyHash: Int): Boolean = keptKeys(keyHash)

  override protected def isMore: Boolean =
    back.hasNext || behindBack != null || source.hasNext || kept.sizeBytes > maxBytes

  override protected def advance(): UnsafeRow =
    if (back.hasNext) back.next()
    else if (behindBack != null) {
      val row = behindBack
      behindBack = null
      row
    } else if (source.hasNext) take(source.next())
    else if (kept.sizeBytes > maxBytes) {
      emitOldest()
      null
    } else null

  private def take(row: UnsafeRow): UnsafeRow = {
    val hash = schema.hash(row)
    input.add(hash)
    if (isFirst || !port.isOvertaken || group.continues(row)) {
      isFirst = false
      emit(row)
    } else if (schema.isDeferrable(row)) {
      keep(row, hash)
      null
    } else if (keptKeys(schema.keyHash(row))) {
      back = returnKept()
      behindBack = row.copy()
      group.emitted(row)
      null
    } else emit(row)
  }

  private def emit(row: UnsafeRow): UnsafeRow = {
    group.emitted(row)
    row
  }

  private def keep(row: UnsafeRow, hash: Long): Unit = {
    kept.add(row)
    deferred.add(hash)
    keptKeys += schema.keyHash(row)
    ()
  }

  private def returnKept(): Iterator[UnsafeRow] = {
    val rows = kept.iterator
    kept = port.newBuffer()
    deferred = new RowsDigest.Builder
    keptKeys.clear()
    rows
  }

  private def emitOldest(): Unit = {
    var bytes = kept.sizeBytes
    val oldest = returnKept().buffered
    behind = oldest
    back = new Iterator[UnsafeRow] {
      override def hasNext: Boolean =
        oldest.hasNext && (bytes > maxBytes || group.continues(oldest.head))
      override def next(): UnsafeRow = {
        val row = emit(oldest.next())
        bytes -= row.getSizeInBytes
        beyondBound += 1
        row
      }
    }
  }

  override protected def end(): Unit = {
    behind.foreach(row => keep(row, schema.hash(row)))
    if (kept.size > 0) port.write(kept)
    port.arrived(ChannelReport(port.channel, input.result, deferred.result), beyondBound)
  }
}

/**
 * Rows of a shuffle input in an attempt that repeats a decision: it emits all rows except those of
 * the decision. The decision has the last rows of each key, so of equal rows the last ones stay in
 * flight. They are only known at the end of the input. So rows are buffered from the first row on
 * that equals one of the decision.
 *
 * @param staying
 *   in-flight rows of the decision, in order
 */
final private[cleancut] class FollowingChannel(
    source: Iterator[UnsafeRow],
    schema: ChannelSchema,
    port: ChannelPort,
    decided: ChannelReport,
    staying: RowBuffer
) extends ChannelIterator {
  private val input = new RowsDigest.Builder
  private val deferred = new RowsDigest.Builder
  // For each row of the decision: number of equal buffered rows beyond those that stay in flight.
  private val surplus = mutable.HashMap.empty[UnsafeRow, Int]
  private val keys = mutable.Set.empty[Int]
  private val buffer = port.newBuffer()
  private lazy val atEnd = buffer.iterator

  staying.iterator.foreach { row =>
    surplus.updateWith(row.copy())(count => Some(count.getOrElse(0) - 1))
    keys += schema.keyHash(row)
  }

  override def hasInFlight(keyHash: Int): Boolean = keys(keyHash)

  override protected def isMore: Boolean = source.hasNext || atEnd.hasNext

  override protected def advance(): UnsafeRow =
    if (source.hasNext) take(source.next())
    else if (atEnd.hasNext) emitSurplus(atEnd.next())
    else null

  private def take(row: UnsafeRow): UnsafeRow = {
    input.add(schema.hash(row))
    val isDecided = surplus.contains(row)
    if (isDecided) surplus(row) += 1
    if (isDecided || buffer.size > 0) {
      buffer.add(row)
      null
    } else row
  }

  private def emitSurplus(row: UnsafeRow): UnsafeRow = surplus.get(row) match {
    case None                     => row
    case Some(count) if count > 0 =>
      surplus(row) = count - 1
      row
    case _ =>
      deferred.add(schema.hash(row))
      null
  }

  override protected def end(): Unit = {
    val actual = ChannelReport(port.channel, input.result, deferred.result)
    if (actual != decided) throw port.differs(decided, actual)
    if (staying.size > 0) port.write(staying)
    port.arrived(actual, beyondBound = 0L)
  }
}
