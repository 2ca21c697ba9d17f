package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.HashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.SpinLock
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  FamilyHandle,
  InFlightKeys,
  RestartableScan,
  SparkKeyOrder
}
import org.apache.spark.sql.types.StructType

import io.cleancut.engine.StateLog
import io.cleancut.engine.memory.Memory

/**
 * The read operations of a store that was opened for a task. A row that [[get]] returns stays valid
 * until the task ends. Rows of a scan are reused by its next step, as with Spark's providers.
 */
abstract private[cleancut] class StoreHandle(context: StoreContext, protected val log: StateLog)
    extends StateStore
    with SparkStoreApi {
  import StoreHandle._

  protected val memory: Memory = Memory.access
  protected val spinLock: SpinLock = context.spinLock
  // Cached, because Python operators read the store in another thread.
  private val attempt = Option(TaskContext.get()).map(_.taskAttemptId())
  private val families = new HashMap[String, FamilyHandle]
  private var lastUsed: FamilyHandle = _

  override def id: StateStoreId = context.request.id

  /**
   * Throws if the handle is not open. It is called under the spin lock, as is every change of that
   * state, so no thread of the task accesses memory after another one has ended its use.
   */
  private[cleancut] def verifyOpen(operation: String): Unit

  /**
   * The family in the open version; None if it has no rows of it and the family was not declared.
   */
  protected def openFamily(name: String): Option[FamilyHandle]

  private[cleancut] def guarded[A](operation: String)(body: => A): A = spinLock {
    verifyOpen(operation)
    body
  }

  override def get(key: UnsafeRow, colFamilyName: String): UnsafeRow = {
    spinLock.enter()
    try {
      val family = use("get", colFamilyName)
      requireKey(key)
      val address = family.find(key)
      if (address == 0L) null else family.valueAt(address)
    } finally spinLock.leave()
  }

  override def keyExists(key: UnsafeRow, colFamilyName: String): Boolean = {
    spinLock.enter()
    try {
      val family = use("keyExists", colFamilyName)
      requireKey(key)
      family.find(key) != 0L
    } finally spinLock.leave()
  }

  override def multiGet(keys: Array[UnsafeRow], colFamilyName: String): Iterator[UnsafeRow] = {
    if (keys == null || keys.contains(null)) throw new IllegalStateException("Keys cannot be null")
    val wanted = keys.map(_.copy())
    guarded("multiGet")(use("multiGet", colFamilyName))
    wanted.iterator.map(get(_, colFamilyName))
  }

  /**
   * Prefetches the state of the first `count` keys, for which [[get]] is called next. The calls
   * then do not wait for memory one after another.
   */
  private[cleancut] def prefetch(keys: Array[UnsafeRow], count: Int, colFamilyName: String): Unit =
    guarded("get")(use("get", colFamilyName).prefetch(keys, count))

  override def valuesIterator(key: UnsafeRow, colFamilyName: String): Iterator[UnsafeRow] =
    spinLock {
      val family = useMultiValued("valuesIterator", colFamilyName)
      requireKey(key)
      val newest = family.find(key)
      if (newest == 0L) Iterator.empty
      else {
        val value = new UnsafeRow(family.valueFields)
        family.valuesAt(newest).iterator.map { address =>
          guarded("valuesIterator")(family.pointAt(value, address))
        }
      }
    }

  override def iterator(colFamilyName: String): StateStoreIterator[UnsafeRowPair] =
    scanAll("iterator", colFamilyName, eachValue = false)

  override def iteratorWithMultiValues(colFamilyName: String): StateStoreIterator[UnsafeRowPair] =
    scanAll("iteratorWithMultiValues", colFamilyName, eachValue = true)

  override def prefixScan(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan("prefixScan", colFamilyName, NeedsPrefix, eachValue = false)(_.prefixStretch(prefixKey))

  override def prefixScanWithMultiValues(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan("prefixScanWithMultiValues", colFamilyName, NeedsPrefix, eachValue = true)(
      _.prefixStretch(prefixKey)
    )

  override def rangeScan(
      startKey: Option[UnsafeRow],
      endKey: Option[UnsafeRow],
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan("rangeScan", colFamilyName, NeedsRange, eachValue = false)(
      _.rangeStretch(startKey, endKey)
    )

  override def rangeScanWithMultiValues(
      startKey: Option[UnsafeRow],
      endKey: Option[UnsafeRow],
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan("rangeScanWithMultiValues", colFamilyName, NeedsRange, eachValue = true)(
      _.rangeStretch(startKey, endKey)
    )

  override protected def restartableScan(colFamilyName: String): RestartableScan = spinLock {
    val family = use("iterator", colFamilyName)
    val rows = new StoreRows(this, family, family.scanAll(), SparkKeyOrder.All, eachValue = false)
    new RestartableScan {
      override def restartFrom(prefix: UnsafeRow): Unit = guarded("iterator") {
        val order = family.order.getOrElse(throw new IllegalArgumentException(NeedsRange))
        val stretch = order.from(prefix)
        rows.restart(family.scan(stretch), stretch.accepts)
      }
      override def hasNext: Boolean = rows.hasNext
      override def next(): UnsafeRowPair = rows.next()
      override def close(): Unit = rows.close()
    }
  }

  override protected def declare(
      colFamilyName: String,
      valueSchema: StructType,
      encoder: KeyStateEncoderSpec,
      isMultiValued: Boolean,
      isInternal: Boolean
  ): Unit = {
    context.families.create(colFamilyName, encoder, valueSchema, isMultiValued, isInternal)
    ()
  }

  override def allColumnFamilyNames: Set[String] =
    log.families.map(_.schema.name).toSet + StateStore.DEFAULT_COL_FAMILY_NAME

  /** The family for an operation under the spin lock, or Spark's error. */
  final protected def use(operation: String, name: String): FamilyHandle = {
    verifyOpen(operation)
    if (lastUsed != null && (lastUsed.name eq name)) lastUsed
    else {
      var family = families.get(name)
      if (family == null) {
        context.families.checkName(operation, name)
        family = openFamily(name).getOrElse {
          throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name)
        }
        families.put(name, family)
      }
      lastUsed = family
      family
    }
  }

  final protected def useMultiValued(operation: String, name: String): FamilyHandle = {
    val family = use(operation, name)
    if (!family.isMultiValued) throw new IllegalStateException(s"$operation $NeedsLists")
    family
  }

  /** Forgets the cached handle of a family, because it was declared again or dropped. */
  final protected def forget(name: String): Unit = {
    families.remove(name)
    lastUsed = null
  }

  final protected def requireKey(key: UnsafeRow): Unit =
    if (key == null) throw new IllegalStateException("Key cannot be null")

  private def scanAll(operation: String, name: String, eachValue: Boolean) = spinLock {
    val family = if (eachValue) useMultiValued(operation, name) else use(operation, name)
    wrap(family, new StoreRows(this, family, family.scanAll(), SparkKeyOrder.All, eachValue))
  }

  private def scan(operation: String, name: String, needs: String, eachValue: Boolean)(
      stretchOf: SparkKeyOrder => SparkKeyOrder.Stretch
  ): StateStoreIterator[UnsafeRowPair] = spinLock {
    val family = if (eachValue) useMultiValued(operation, name) else use(operation, name)
    val order = family.order.getOrElse(throw new IllegalArgumentException(needs))
    val stretch = stretchOf(order)
    wrap(family, new StoreRows(this, family, family.scan(stretch), stretch.accepts, eachValue))
  }

  private def wrap(family: FamilyHandle, rows: StoreRows): StateStoreIterator[UnsafeRowPair] = {
    val skipped = for {
      task <- attempt
      keys <- InFlightKeys.of(task, id.operatorId)
      skipped <- keys.skipped(family.name)
    } yield skipped
    val seen = skipped.fold[Iterator[UnsafeRowPair]](rows)(isSkipped =>
      rows.filterNot(pair => isSkipped(pair.key))
    )
    new StateStoreIterator(seen, () => rows.close())
  }
}

private[cleancut] object StoreHandle {
  private val NeedsPrefix = "Prefix scan requires setting prefix key!"
  private val NeedsRange = "Range scan requires an encoder that supports range scanning!"
  private val NeedsLists = "requires an encoder that supports multiple values for a single key."
}
