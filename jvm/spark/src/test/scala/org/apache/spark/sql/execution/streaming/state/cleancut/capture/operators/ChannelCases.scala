package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.{
  ChannelPort,
  ChannelSchema,
  RowBuffer
}

import io.cleancut.base.StoreId
import io.cleancut.format.Channels
import io.cleancut.format.cut.ChannelReport

/** Rows and a task of a channel, for tests. */
private[cleancut] object ChannelCases {
  final case class Case(key: Long, number: Long, isLate: Boolean)

  object Case {
    implicit val order: Ordering[Case] = Ordering.by(c => (c.key, c.number, c.isLate))
  }

  final class Differs extends RuntimeException

  final class Port(val overtakenAt: Int = Int.MaxValue) extends ChannelPort {
    private var checks = 0
    var kept: Seq[Case] = Nil
    var report: ChannelReport = _
    var beyondBound = 0L

    override val channel: StoreId = StoreId(0, 3, Channels.name(0))
    override def isOvertaken: Boolean = {
      checks += 1
      checks > overtakenAt
    }
    override def newBuffer(): RowBuffer = new Copies
    override def write(rows: RowBuffer): Unit = kept = rows.iterator.map(parse).toVector
    override def arrived(made: ChannelReport, beyond: Long): Unit = {
      assert(report == null, "the arrival is repeated")
      beyondBound = beyond
      report = made
    }
    override def differs(decided: ChannelReport, actual: ChannelReport): Throwable = new Differs
  }

  final private class Copies extends RowBuffer {
    private val rows = mutable.ArrayBuffer.empty[UnsafeRow]
    override def iterator: Iterator[UnsafeRow] = rows.iterator
    override protected def append(row: UnsafeRow): Unit = rows += row.copy()
  }

  object Schema extends ChannelSchema {
    override def hash(row: UnsafeRow): Long = row.hashCode.toLong * 0x9e3779b97f4a7c15L
    override def keyHash(row: UnsafeRow): Int = row.getLong(0).toInt
    override def isDeferrable(row: UnsafeRow): Boolean = !row.getBoolean(2)
    // Late already, as some of the rows that would be late are.
    override def isDropped(row: UnsafeRow): Boolean = row.getBoolean(2) && row.getLong(1) % 4 == 0
  }

  def numbered(
      count: Int,
      keys: Int,
      random: Random,
      lateShare: Double = 0.0
  ): Seq[Case] =
    Seq.tabulate(count)(i => Case(random.nextInt(keys).toLong, i, random.nextDouble() < lateShare))

  /** Duplicates some rows, because equal rows may occur. */
  def withDuplicates(rows: Seq[Case], random: Random): Seq[Case] =
    rows.flatMap(row => if (random.nextInt(4) == 0) Seq(row, row) else Seq(row))

  def unsafe(row: Case): UnsafeRow = {
    val writer = new UnsafeRowWriter(3)
    writer.resetRowWriter()
    writer.write(0, row.key)
    writer.write(1, row.number)
    writer.write(2, row.isLate)
    writer.getRow
  }

  def parse(row: UnsafeRow): Case =
    Case(row.getLong(0), row.getLong(1), row.getBoolean(2))
}
