package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.StoredFamily
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.LogStateStoreProvider

/**
 * Reads a version with all its column families. In these Spark versions, column families can only
 * be registered with a store that may be written; Spark's own state reader does the same.
 * Cleancut's stores also accept them in a read-only store, which is required for a version of an
 * old cut.
 */
private[operations] object StoredReads {

  def open(provider: StateStoreProvider, version: Long, id: Option[String]): ReadStateStore =
    provider match {
      case cleancut: LogStateStoreProvider => cleancut.getReadStore(version, id)
      case other                           => other.getStore(version, id)
    }

  def register(from: ReadStateStore, family: StoredFamily): Unit =
    from
      .asInstanceOf[StateStore]
      .createColFamilyIfAbsent(
        family.name,
        family.schema.keySchema,
        family.schema.valueSchema,
        family.schema.keyStateEncoderSpec.get,
        family.holdsLists,
        family.isInternal
      )

  def close(from: ReadStateStore): Unit = from.abort()
}
