package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** Operations on stores of any provider. */
private[operations] object StoreOperations {

  /** Whether Spark's providers can create a version that contains only the rows that are put. */
  val CanWriteForSpark: Boolean = true

  /** Opens the next version without rows. */
  def openEmpty(provider: StateStoreProvider, version: Long): StateStore =
    provider.getStore(version, None, forceSnapshotOnCommit = false, loadEmpty = true)

  /** One pair for each value; the values of a key are consecutive. */
  def eachValue(from: ReadStateStore, family: String): StateStoreIterator[UnsafeRowPair] =
    from.iteratorWithMultiValues(family)

  def putList(to: StateStore, key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    to.putList(key, values, family)
}
