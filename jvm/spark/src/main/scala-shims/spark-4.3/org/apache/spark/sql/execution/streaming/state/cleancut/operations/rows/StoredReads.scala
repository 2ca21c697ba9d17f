package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.StoredFamily

/** Reads a version with all its column families in this Spark version. */
private[operations] object StoredReads {

  def open(provider: StateStoreProvider, version: Long, id: Option[String]): ReadStateStore =
    provider.getReadStore(version, id)

  def register(from: ReadStateStore, family: StoredFamily): Unit = from.registerColFamily(
    family.name,
    family.schema.keySchema,
    family.schema.valueSchema,
    family.schema.keyStateEncoderSpec.get,
    family.holdsLists,
    family.isInternal
  )

  def close(from: ReadStateStore): Unit = from.release()
}
