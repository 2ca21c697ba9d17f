package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** What an act asks of stores of any provider. */
private[operations] object StoreOperations {

  /** Whether Spark's own providers make a version of nothing but what is put. */
  val CanWriteForSpark: Boolean = true

  /** For the version after one, of nothing but what is put. */
  def openEmpty(provider: StateStoreProvider, version: Long): StateStore =
    provider.getStore(version, None, forceSnapshotOnCommit = false, loadEmpty = true)

  /** A pair for each value, those of a key one after the other. */
  def eachValue(from: ReadStateStore, family: String): StateStoreIterator[UnsafeRowPair] =
    from.iteratorWithMultiValues(family)

  def putList(to: StateStore, key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    to.putList(key, values, family)
}
