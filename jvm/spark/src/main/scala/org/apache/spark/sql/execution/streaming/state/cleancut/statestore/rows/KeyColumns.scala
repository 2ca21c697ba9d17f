package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Expression,
  GetStructField,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.StructType

/** The partitioning columns of a family's keys. */
private[cleancut] object KeyColumns {

  /**
   * The partition of a key, as in Spark's exchange before the operator. For one thread at a time.
   *
   * @param places
   *   path of each column: its index in the key, then in the nested row, and so on; a row counts
   *   with all of its columns
   */
  def partitionOf(key: StructType, places: Seq[Seq[Int]], partitions: Int): UnsafeRow => Int = {
    val id = HashPartitioning(places.map(columnAt(key, _)), partitions).partitionIdExpression
    val project = UnsafeProjection.create(id)
    key => project(key).getInt(0)
  }

  private def columnAt(key: StructType, place: Seq[Int]): Expression = {
    val first = key(place.head)
    val whole: Expression = BoundReference(place.head, first.dataType, first.nullable)
    place.tail.foldLeft(whole) { (row, index) =>
      row.dataType match {
        case struct: StructType if struct.indices.contains(index) => GetStructField(row, index)
        case other                                                =>
          throw new IllegalArgumentException(s"no column $index in $other of a key")
      }
    }
  }
}
