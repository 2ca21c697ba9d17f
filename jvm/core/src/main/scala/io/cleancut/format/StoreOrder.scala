package io.cleancut.format

import io.cleancut.base.StoreId

/** The order of stores in pages: by operator, partition and name. */
object StoreOrder extends Ordering[StoreId] {
  override def compare(a: StoreId, b: StoreId): Int = {
    val byOperator = java.lang.Long.compare(a.operator, b.operator)
    if (byOperator != 0) byOperator
    else {
      val byPartition = Integer.compare(a.partition, b.partition)
      if (byPartition != 0) byPartition else a.name.compareTo(b.name)
    }
  }
}
