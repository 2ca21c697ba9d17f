package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.{
  LogStateStoreProvider,
  StoreHandle
}

/** What an act asks of stores of any provider, on lines of Spark whose own can do less of it. */
private[operations] object StoreOperations {

  /** Whether Spark's own providers make a version of nothing but what is put. */
  val CanWriteForSpark: Boolean = false

  /** For the version after one, of nothing but what is put. Acts refuse other providers before. */
  def openEmpty(provider: StateStoreProvider, version: Long): StateStore =
    provider
      .asInstanceOf[LogStateStoreProvider]
      .getStore(version, None, forceSnapshotOnCommit = false, loadEmpty = true)

  /** A pair for each value, those of a key one after the other. */
  def eachValue(from: ReadStateStore, family: String): StateStoreIterator[UnsafeRowPair] =
    from match {
      case own: StoreHandle => own.iteratorWithMultiValues(family)
      case of               =>
        val keys = of.iterator(family)
        val pair = new UnsafeRowPair
        val pairs = keys.map(_.key.copy()).flatMap { key =>
          of.valuesIterator(key, family).map(pair.withRows(key, _))
        }
        new StateStoreIterator(pairs, () => keys.close())
    }

  def putList(to: StateStore, key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    to.asInstanceOf[StoreHandle].putList(key, values, family)
}
