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

import io.cleancut.format.FamilySchema

/**
 * The columns of a family's keys that rows are divided by.
 *
 * @param places
 *   of each, in the key, then in the row that is there, and so on
 */
final private[cleancut] class KeyColumns(family: FamilySchema, places: Seq[Seq[Int]]) {
  private val key = SparkKeyOrder.structOf(family.keySchema)

  /** The partition of a key, as Spark's exchange has it. For one thread at a time. */
  def partition(partitions: Int): UnsafeRow => Int = {
    val id = HashPartitioning(places.map(column), partitions).partitionIdExpression
    val project = UnsafeProjection.create(id)
    key => project(key).getInt(0)
  }

  private def column(place: Seq[Int]): Expression = {
    val first = key(place.head)
    val whole: Expression = BoundReference(place.head, first.dataType, first.nullable)
    place.tail.foldLeft(whole) { (row, index) =>
      row.dataType match {
        case struct: StructType if struct.indices.contains(index) => GetStructField(row, index)
        case other                                                =>
          throw new IllegalArgumentException(s"no column $index in $other of ${family.name}")
      }
    }
  }
}
