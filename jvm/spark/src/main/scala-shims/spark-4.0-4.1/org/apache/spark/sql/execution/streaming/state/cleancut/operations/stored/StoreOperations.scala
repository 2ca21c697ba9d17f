package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.{
  LogStateStoreProvider,
  StoreHandle
}

/** Operations on stores of any provider, for Spark versions whose stores lack some of them. */
private[operations] object StoreOperations {

  /** Whether Spark's providers can create a version that contains only the rows that are put. */
  val CanWriteForSpark: Boolean = false

  /** Opens the next version without rows. Operations refuse other providers earlier. */
  def openEmpty(provider: StateStoreProvider, version: Long): StateStore =
    provider
      .asInstanceOf[LogStateStoreProvider]
      .getStore(version, None, forceSnapshotOnCommit = false, loadEmpty = true)

  /** One pair for each value; the values of a key are consecutive. */
  def eachValue(from: ReadStateStore, family: String): StateStoreIterator[UnsafeRowPair] =
    from match {
      case handle: StoreHandle => handle.iteratorWithMultiValues(family)
      case other               =>
        val keys = other.iterator(family)
        val pair = new UnsafeRowPair
        val pairs = keys.map(_.key.copy()).flatMap { key =>
          other.valuesIterator(key, family).map(pair.withRows(key, _))
        }
        new StateStoreIterator(pairs, () => keys.close())
    }

  def putList(to: StateStore, key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    to.asInstanceOf[StoreHandle].putList(key, values, family)
}
