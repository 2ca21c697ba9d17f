package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** What the tests of later lines call of any store, where Spark's own have less. */
package object statestore extends statestore.SparkStores {

  implicit final class LaterReads(private val store: ReadStateStore) extends AnyVal {
    import StateStore.DEFAULT_COL_FAMILY_NAME

    def keyExists(key: UnsafeRow, family: String = DEFAULT_COL_FAMILY_NAME): Boolean = store match {
      case own: StoreHandle => own.keyExists(key, family)
      case other            => other.get(key, family) != null
    }

    def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] = store match {
      case own: StoreHandle => own.multiGet(keys, family)
      case other            => keys.iterator.map(other.get(_, family))
    }

    def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
      later(_.iteratorWithMultiValues(family))

    def prefixScanWithMultiValues(
        prefix: UnsafeRow,
        family: String
    ): StateStoreIterator[UnsafeRowPair] = later(_.prefixScanWithMultiValues(prefix, family))

    def rangeScan(
        start: Option[UnsafeRow],
        end: Option[UnsafeRow],
        family: String
    ): StateStoreIterator[UnsafeRowPair] = later(_.rangeScan(start, end, family))

    def rangeScanWithMultiValues(
        start: Option[UnsafeRow],
        end: Option[UnsafeRow],
        family: String
    ): StateStoreIterator[UnsafeRowPair] = later(_.rangeScanWithMultiValues(start, end, family))

    def deleteRange(begin: UnsafeRow, end: UnsafeRow, family: String): Unit =
      later(_.deleteRange(begin, end, family))

    def allColumnFamilyNames: Set[String] = later(_.allColumnFamilyNames)

    // Spark's own stores have none of it.
    private def later[A](call: StoreHandle => A): A = store match {
      case own: StoreHandle => call(own)
      case other            => throw new UnsupportedOperationException(other.toString)
    }
  }
}
