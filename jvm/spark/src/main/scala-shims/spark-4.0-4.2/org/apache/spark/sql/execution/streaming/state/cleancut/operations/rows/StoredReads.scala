package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.StoredFamily
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.LogStateStoreProvider

/**
 * How a version is read with all its column families on these lines of Spark, where only a store
 * that might be written can be told of them; Spark's own reader of state does the same. Cleancut's
 * own stores can be told where they are only read, which is all that a version of an old cut
 * allows.
 */
private[operations] object StoredReads {

  def open(provider: StateStoreProvider, version: Long, id: Option[String]): ReadStateStore =
    provider match {
      case own: LogStateStoreProvider => own.getReadStore(version, id)
      case of                         => of.getStore(version, id)
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
