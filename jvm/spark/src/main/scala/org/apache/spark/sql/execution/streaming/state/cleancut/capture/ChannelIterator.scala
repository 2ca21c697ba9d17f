package org.apache.spark.sql.execution.streaming.state.cleancut.capture

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.cleancut.base.StoreId
import io.cleancut.format.cut.{ChannelReport, RowsDigest}

/** What the iterator of a channel asks of the task around it. */
private[cleancut] trait ChannelPort {
  def channel: StoreId

  /** Whether the epoch does not wait for this task any more. Looked at between two rows. */
  def isOvertaken: Boolean

  def newBuffer(): RowBuffer

  /** Makes rows durable that stay in flight. */
  def write(kept: RowBuffer): Unit

  /**
   * All has been read, and written.
   *
   * @param beyondBound
   *   rows that were handed on because more would have stayed in flight than may
   */
  def arrived(report: ChannelReport, beyondBound: Long): Unit

  /** The input is not that on which another attempt has decided. */
  def differs(decided: ChannelReport, found: ChannelReport): Throwable
}

/** What a channel has to know of its rows. For one thread at a time. */
private[cleancut] trait ChannelSchema {

  /** Of the whole row. */
  def hash(row: UnsafeRow): Long

  /** Equal for rows of one key. */
  def keyHash(row: UnsafeRow): Int

  /** Whether no filter of late rows would drop it in the next epoch. */
  def isDeferrable(row: UnsafeRow): Boolean

  /** Whether the operator drops it in this epoch, before its function sees it. */
  def isDropped(row: UnsafeRow): Boolean
}

/** The key of the row that was handed on last, if the rows of a key go on or stay together. */
final private[cleancut] class OpenGroup(schema: ChannelSchema, splitsGroups: Boolean) {
  private var key: Option[Int] = None

  def handed(row: UnsafeRow): Unit = if (!splitsGroups) key = Some(schema.keyHash(row))

  /** Whether the row must be handed on because those before it were. */
  def goesOn(row: UnsafeRow): Boolean = key.exists(_ == schema.keyHash(row))
}

/** Rows of a channel in an attempt that may leave some of them in flight. */
private[cleancut] trait CapturingChannel extends Iterator[UnsafeRow] {

  /**
   * Whether rows of a key are in flight, as far as the channel has been read. The answer is final
   * once the channel has ended.
   */
  def hasInFlight(keyHash: Int): Boolean
}

/** Ends once for all, however often it is asked. */
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

  /** The next row to hand on; null if the one that was taken is not handed on. */
  protected def advance(): UnsafeRow

  protected def isMore: Boolean

  protected def end(): Unit
}

/**
 * The rows of a channel in an attempt that decides for itself: those of the epoch before, then the
 * exchange's, until the task is overtaken. What is left then stays in flight, but for the first
 * row, so that no number of epochs that are cut at once can stop the query, and for rows that would
 * be late in the next epoch. Such a row is handed on, and if rows of its key have been kept, all
 * that was kept goes before it, so that no key sees its rows out of order.
 *
 * @param maxBytes
 *   what stays in flight at most; beyond it the oldest rows are handed on, until the rest may stay
 * @param splitsGroups
 *   whether some rows of a key may stay and others not. If not, the rows of a key must come
 *   together
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
  // Behind what is handed back, and stays.
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
      handOnOldest()
      null
    } else null

  private def take(row: UnsafeRow): UnsafeRow = {
    val hash = schema.hash(row)
    input.add(hash)
    if (isFirst || !port.isOvertaken || group.goesOn(row)) {
      isFirst = false
      handOn(row)
    } else if (schema.isDeferrable(row)) {
      keep(row, hash)
      null
    } else if (keptKeys(schema.keyHash(row))) {
      back = handBack()
      behindBack = row.copy()
      group.handed(row)
      null
    } else handOn(row)
  }

  private def handOn(row: UnsafeRow): UnsafeRow = {
    group.handed(row)
    row
  }

  private def keep(row: UnsafeRow, hash: Long): Unit = {
    kept.add(row)
    deferred.add(hash)
    keptKeys += schema.keyHash(row)
    ()
  }

  private def handBack(): Iterator[UnsafeRow] = {
    val rows = kept.iterator
    kept = port.newBuffer()
    deferred = new RowsDigest.Builder
    keptKeys.clear()
    rows
  }

  private def handOnOldest(): Unit = {
    var bytes = kept.sizeBytes
    val oldest = handBack().buffered
    behind = oldest
    back = new Iterator[UnsafeRow] {
      override def hasNext: Boolean =
        oldest.hasNext && (bytes > maxBytes || group.goesOn(oldest.head))
      override def next(): UnsafeRow = {
        val row = handOn(oldest.next())
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
 * Rows of a channel in an attempt that repeats a decision: it emits all rows but those of the
 * decision. The decision has the last rows of each key, so that of equal rows the last ones stay in
 * flight. Which ones these are is known at the end of the input only. So from the first row on that
 * equals one of the decision, rows are buffered until then.
 *
 * @param staying
 *   rows that the decision left in flight, in their order
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
  // For each row of the decision: equal rows in the buffer beyond those that stay in flight.
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
    val found = ChannelReport(port.channel, input.result, deferred.result)
    if (found != decided) throw port.differs(decided, found)
    if (staying.size > 0) port.write(staying)
    port.arrived(found, beyondBound = 0L)
  }
}
