package io.cleancut.engine

import org.scalatest.{Assertion, Assertions}

import io.cleancut.engine.OneFamily._
import io.cleancut.engine.memory.Memory
import io.cleancut.testkit.Blob
import io.cleancut.testkit.Blob.{Blob, Lists}

/** A scan that a test keeps open across later changes, with the rows that it must still return. */
abstract private[engine] class OpenScan(memory: Memory, val log: StateLog, rows: Lists)
    extends Assertions {
  require(log.retain(), "the log has been freed")
  protected var rest: Lists = rows
  private var seen = Set.empty[Blob]

  /** The scan reads nothing at or above this ref. */
  def end: Int

  /** Whether the scan uses the indexes. */
  def isOrdered: Boolean

  protected def advance(): Boolean
  protected def address: Long
  protected def verifyEnd(): Assertion = assert(rest.isEmpty, "rows are missing in the scan")
  protected def verifyRow(key: Blob, values: Vector[Blob]): Assertion =
    assert(rest.get(key).contains(values), "a row does not belong in the scan")

  /** Checks up to `count` rows; returns false at the end of the scan. */
  def take(count: Int): Boolean = {
    var left = count
    var more = true
    while (left > 0 && more) {
      more = advance()
      if (more) {
        val key = Blob.keyAt(memory, address)
        assert(!seen(key), s"duplicate key in $this")
        seen += key
        verifyRow(key, log.values(memory, address))
        rest -= key
      } else verifyEnd()
      left -= 1
    }
    more
  }

  def close(): Unit = log.release()
}

/** A scan over all rows of a version, or of the rows at its start. */
final private[engine] class OpenFullScan(memory: Memory, log: StateLog, rows: Lists, bound: Int)
    extends OpenScan(memory, log, rows) {
  private val scan = log.scan(bound)
  override def isOrdered: Boolean = false
  override val end: Int = if (bound == Record.NoBound) log.contents.end else bound
  override protected def advance(): Boolean = scan.advance()
  override protected def address: Long = scan.address
}

/** A scan over the rows of one rank in a version, or of the rows at its start. */
final private[engine] class OpenRankScan(
    memory: Memory,
    log: StateLog,
    rows: Lists,
    rank: Long,
    bound: Int
) extends OpenScan(memory, log, rows.filter(row => FirstByteRank.of(row._1) == rank)) {
  private val scan = log.scanRank(rank, bound)
  override def isOrdered: Boolean = true
  override val end: Int = if (bound == Record.NoBound) log.contents.end else bound
  override protected def advance(): Boolean = scan.advance()
  override protected def address: Long = scan.address
}
