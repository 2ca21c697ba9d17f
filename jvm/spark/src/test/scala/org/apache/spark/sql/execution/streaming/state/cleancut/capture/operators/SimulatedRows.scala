package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.{
  AlternatingRows,
  ChannelPort,
  ChannelSchema,
  DecidingChannel,
  FollowingChannel,
  GroupedOrder,
  RowBuffer
}

import io.cleancut.base.StoreId
import io.cleancut.format.cut.ChannelReport

/** The task of [[SimulatedRows]]. */
trait SimulatedTask {
  def channel: StoreId
  def isOvertaken: Boolean

  /** Reports that all rows have been read, and the ones that stay in flight. */
  def arrived(kept: Vector[Int], report: ChannelReport): Unit

  def differs(decided: ChannelReport, actual: ChannelReport): Throwable
}

/**
 * Columns of rows that are numbers.
 *
 * @param position
 *   the column by which the rows of a key are sorted; None if they are not
 */
final case class SimulatedColumns(
    key: Int => Int,
    position: Option[Int => Int],
    isLate: Int => Boolean,
    hash: Int => Long
)

/** An operator's processing of the shuffle input of a task, whose rows are numbers. */
final class SimulatedRows(columns: SimulatedColumns, splitsGroups: Boolean, maxRows: Int) {
  import SimulatedRows._

  /**
   * In-flight rows and those of the exchange, as the operator reads them.
   *
   * @param cutOrder
   *   the order that the key of the cut is compared in
   */
  def inTurn(inFlight: Vector[Int], exchanged: Vector[Int], isKeySorted: Boolean): Vector[Int] = {
    val keys: Ordering[InternalRow] = Ordering.by(row => columns.key(numberIn(row)))
    val rows: Ordering[InternalRow] = columns.position.fold(keys) { position =>
      Ordering.by(row => (columns.key(numberIn(row)), position(numberIn(row))))
    }
    val order = GroupedOrder(if (isKeySorted) rows else keys, rows)
    val source = exchanged.iterator.map(unsafe)
    AlternatingRows(bufferOf(inFlight), source, order, splitsGroups, new Copies)
      .map(numberIn)
      .toVector
  }

  /** Emits the rows of an attempt that decides which ones stay in flight. */
  def decide(source: Vector[Int], task: SimulatedTask): Vector[Int] = {
    val maxBytes = maxRows.toLong * RowBytes
    val port = new Port(task)
    new DecidingChannel(source.iterator.map(unsafe), schema, port, maxBytes, splitsGroups)
      .map(numberIn)
      .toVector
  }

  /** Emits the rows of an attempt that repeats a decision. */
  def follow(
      source: Vector[Int],
      decided: ChannelReport,
      staying: Vector[Int],
      task: SimulatedTask
  ): Vector[Int] = {
    val port = new Port(task)
    val rows = source.iterator.map(unsafe)
    new FollowingChannel(rows, schema, port, decided, bufferOf(staying)).map(numberIn).toVector
  }

  private object schema extends ChannelSchema {
    override def hash(row: UnsafeRow): Long = columns.hash(numberIn(row))
    override def keyHash(row: UnsafeRow): Int = columns.key(numberIn(row))
    override def isDeferrable(row: UnsafeRow): Boolean = !columns.isLate(numberIn(row))
    override def isDropped(row: UnsafeRow): Boolean = false
  }
}

private object SimulatedRows {
  private val RowBytes = 16

  private def unsafe(number: Int): UnsafeRow = {
    val writer = new UnsafeRowWriter(1)
    writer.resetRowWriter()
    writer.write(0, number.toLong)
    writer.getRow
  }

  private def numberIn(row: InternalRow): Int = row.getLong(0).toInt

  private def bufferOf(rows: Vector[Int]): RowBuffer = {
    val buffer = new Copies
    rows.foreach(row => buffer.add(unsafe(row)))
    buffer
  }

  final private class Port(task: SimulatedTask) extends ChannelPort {
    private var kept = Vector.empty[Int]

    override def channel: StoreId = task.channel
    override def isOvertaken: Boolean = task.isOvertaken
    override def newBuffer(): RowBuffer = new Copies
    override def write(rows: RowBuffer): Unit = kept = rows.iterator.map(numberIn).toVector
    override def arrived(report: ChannelReport, beyondBound: Long): Unit =
      task.arrived(kept, report)
    override def differs(decided: ChannelReport, actual: ChannelReport): Throwable =
      task.differs(decided, actual)
  }

  final private class Copies extends RowBuffer {
    private val rows = mutable.ArrayBuffer.empty[UnsafeRow]
    override def iterator: Iterator[UnsafeRow] = rows.iterator
    override protected def append(row: UnsafeRow): Unit = rows += row.copy()
  }
}
