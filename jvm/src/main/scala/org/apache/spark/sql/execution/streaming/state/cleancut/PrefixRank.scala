package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

import io.cleancut.engine.{Bytes, KeyHash, Memory, RankOf}

/**
 * Orders keys by the hash of their first columns, so that all keys with one prefix lie together.
 * Not thread-safe: it reuses its rows.
 */
final private[cleancut] class PrefixRank(keySchema: StructType, prefixColumns: Int, memory: Memory)
    extends RankOf {
  private val prefixOf = UnsafeProjection.create(
    keySchema.fields.toSeq.take(prefixColumns).zipWithIndex.map { case (field, i) =>
      BoundReference(i, field.dataType, field.nullable)
    }
  )
  private val keyRow = new UnsafeRow(keySchema.length)

  override def rank(key: Bytes): Long = {
    keyRow.pointTo(key.base, key.offset, key.length)
    rankOfPrefix(prefixOf(keyRow))
  }

  def rankOfPrefix(prefix: UnsafeRow): Long =
    KeyHash.hash64(memory, prefix.getBaseObject, prefix.getBaseOffset, prefix.getSizeInBytes)

  /** Whether a key of that rank really has the prefix: two prefixes may share a rank. */
  def hasPrefix(key: UnsafeRow, prefix: UnsafeRow): Boolean = prefixOf(key) == prefix
}
