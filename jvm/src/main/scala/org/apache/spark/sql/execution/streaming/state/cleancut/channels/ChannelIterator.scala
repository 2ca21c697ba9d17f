package org.apache.spark.sql.execution.streaming.state.cleancut.channels

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.cleancut.StoreId
import io.cleancut.channels.{ChannelReport, RowsDigest}

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

/** Ends once for all, however often it is asked. */
abstract private[cleancut] class ChannelIterator extends Iterator[UnsafeRow] {
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
 * The rows of a channel in an attempt that repeats what another one has decided: it hands on all
 * but those that stay in flight, a multiset, since a shuffle does not keep its order.
 *
 * @param staying
 *   in flight
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
  private val left = mutable.HashMap.empty[UnsafeRow, Int]

  staying.iterator.foreach(row => left.updateWith(row.copy())(n => Some(n.getOrElse(0) + 1)))

  override protected def isMore: Boolean = source.hasNext

  override protected def advance(): UnsafeRow =
    if (!source.hasNext) null
    else {
      val row = source.next()
      val hash = schema.hash(row)
      input.add(hash)
      left.get(row) match {
        case Some(count) =>
          deferred.add(hash)
          if (count == 1) left -= row else left(row) = count - 1
          null
        case None => row
      }
    }

  override protected def end(): Unit = {
    val found = ChannelReport(port.channel, input.result, deferred.result)
    if (found != decided) throw port.differs(decided, found)
    if (staying.size > 0) port.write(staying)
    port.arrived(found, beyondBound = 0L)
  }
}
