package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** Methods of later lines that tests call on any store, which Spark's own stores lack. */
package object statestore extends statestore.SparkStores {

  implicit final class LaterReads(private val store: ReadStateStore) extends AnyVal {
    import StateStore.DEFAULT_COL_FAMILY_NAME

    def keyExists(key: UnsafeRow, family: String = DEFAULT_COL_FAMILY_NAME): Boolean = store match {
      case cleancut: StoreHandle => cleancut.keyExists(key, family)
      case other                 => other.get(key, family) != null
    }

    def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] = store match {
      case cleancut: StoreHandle => cleancut.multiGet(keys, family)
      case other                 => keys.iterator.map(other.get(_, family))
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

    // Spark's own stores lack these.
    private def later[A](call: StoreHandle => A): A = store match {
      case cleancut: StoreHandle => call(cleancut)
      case other                 => throw new UnsupportedOperationException(other.toString)
    }
  }
}
