package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.engine.{Bytes, Memory, Record, StateLog}
import io.cleancut.error.Errors

/**
 * The reading half of a store that was opened for a task. A row that it returns stays as it is
 * until the task ends; the row object itself is reused by the next read, as with Spark's own
 * providers.
 *
 * @param bound
 *   the end of the version that is read, or [[Record.NoBound]] to read one's own writes
 */
abstract private[cleancut] class StoreHandle(
    context: StoreContext,
    val open: StoreVersions.Current,
    bound: Int
) extends ReadStateStore {

  protected val log: StateLog = open.log
  protected val memory: Memory = Memory.access
  protected val gate: Gate = context.gate
  private val keyBytes = new Bytes
  private val valueRow = new UnsafeRow(context.request.valueSchema.length)

  override def id: StateStoreId = context.request.id

  /**
   * Throws if the handle is not open any more. It is called inside the gate, as is every change of
   * that state: so no thread of the task can still be at the memory when another ends its use.
   */
  protected def verifyOpen(operation: String): Unit

  override def get(key: UnsafeRow, colFamilyName: String): UnsafeRow = {
    gate.enter()
    try {
      val address = find(key, "get", colFamilyName)
      if (address == 0L) null
      else {
        val keyLength = Record.keyLength(memory, address)
        valueRow.pointTo(
          null,
          Record.valueAddress(address, keyLength),
          Record.valueLength(memory, address)
        )
        valueRow
      }
    } finally gate.leave()
  }

  override def keyExists(key: UnsafeRow, colFamilyName: String): Boolean = {
    gate.enter()
    try find(key, "keyExists", colFamilyName) != 0L
    finally gate.leave()
  }

  override def iterator(colFamilyName: String): StateStoreIterator[UnsafeRowPair] = {
    val rows = gate {
      verifyUse("iterator", colFamilyName)
      log.scan(bound)
    }
    wrap(new RowIterator {
      override protected def advance(): Boolean = rows.advance()
      override protected def address: Long = rows.address
    })
  }

  override def prefixScan(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] = {
    val rank = open.rank.getOrElse(throw unsupported("prefixScan", "the keys are not ordered"))
    // The caller may reuse its row while the scan is open.
    val prefix = prefixKey.copy()
    val rows = gate {
      verifyUse("prefixScan", colFamilyName)
      log.scanRank(rank.rankOfPrefix(prefix), bound)
    }
    wrap(new RowIterator {
      override protected def advance(): Boolean = rows.advance()
      override protected def address: Long = rows.address
      override protected def accepts(key: UnsafeRow): Boolean = rank.hasPrefix(key, prefix)
    })
  }

  override def valuesIterator(key: UnsafeRow, colFamilyName: String): Iterator[UnsafeRow] =
    throw unsupported("valuesIterator", StoreHandle.OneValue)

  override def prefixScanWithMultiValues(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    throw unsupported("prefixScanWithMultiValues", StoreHandle.OneValue)

  override def iteratorWithMultiValues(colFamilyName: String): StateStoreIterator[UnsafeRowPair] =
    throw unsupported("iteratorWithMultiValues", StoreHandle.OneValue)

  override def allColumnFamilyNames: Set[String] = Set(StateStore.DEFAULT_COL_FAMILY_NAME)

  final protected def verifyUse(operation: String, family: String): Unit = {
    verifyOpen(operation)
    if (family != StateStore.DEFAULT_COL_FAMILY_NAME) {
      throw unsupported(s"the column family $family", StoreHandle.OneFamily)
    }
  }

  final protected def requireKey(key: UnsafeRow): Unit =
    if (key == null) throw new IllegalStateException("Key cannot be null")

  final protected def unsupported(feature: String, reason: String): Throwable =
    Errors.unsupportedFeature(feature, reason)

  final protected def point(bytes: Bytes, row: UnsafeRow): Bytes =
    bytes.pointTo(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)

  private def find(key: UnsafeRow, operation: String, family: String): Long = {
    verifyUse(operation, family)
    requireKey(key)
    log.find(point(keyBytes, key), bound)
  }

  private def wrap(rows: RowIterator): StateStoreIterator[UnsafeRowPair] =
    new StateStoreIterator(rows, () => rows.close())

  /** Walks records; the pair and its rows are reused from one row to the next. */
  abstract private class RowIterator extends Iterator[UnsafeRowPair] {
    private val key = new UnsafeRow(context.request.keySchema.length)
    private val value = new UnsafeRow(context.request.valueSchema.length)
    private val pair = new UnsafeRowPair(key, value)
    private val candidate = new UnsafeRow(context.request.keySchema.length)
    private var state = RowIterator.Unknown
    private var keyLength = 0
    private var valueLength = 0

    protected def advance(): Boolean
    protected def address: Long
    protected def accepts(key: UnsafeRow): Boolean = true

    // Rows are pointed at only in next(): the previous pair stays readable until then.
    override def hasNext: Boolean = {
      if (state == RowIterator.Unknown) {
        gate.enter()
        try {
          verifyOpen("iterator")
          var found = advance()
          while (found && !accepts(pointKey(candidate))) found = advance()
          state = if (found) RowIterator.Ready else RowIterator.Ended
          if (found) measure()
        } finally gate.leave()
      }
      state == RowIterator.Ready
    }

    override def next(): UnsafeRowPair = {
      if (!hasNext) throw new NoSuchElementException("no more rows")
      // The handle may have ended since hasNext, and the row with it.
      verifyOpen("iterator")
      state = RowIterator.Unknown
      key.pointTo(null, Record.keyAddress(address), keyLength)
      value.pointTo(null, Record.valueAddress(address, keyLength), valueLength)
      pair
    }

    def close(): Unit = state = RowIterator.Ended

    private def measure(): Unit = {
      keyLength = Record.keyLength(memory, address)
      valueLength = Record.valueLength(memory, address)
    }

    private def pointKey(row: UnsafeRow): UnsafeRow = {
      row.pointTo(null, Record.keyAddress(address), Record.keyLength(memory, address))
      row
    }
  }

  private object RowIterator {
    val Unknown = 0
    val Ready = 1
    val Ended = 2
  }
}

private[cleancut] object StoreHandle {
  private val OneValue = "a key has one value in this store"
  private val OneFamily = "this store has only the default column family"
}
