package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Opening of stores in this line of Spark, and features of its own stores. */
object VersionedStores {
  val TimeFirst = "time first"

  /** Whether Spark's own stores scan and delete ranges of keys. */
  val HaveRanges: Boolean = true

  /** Keys with a time, by the time's position. */
  def timed(key: StructType): Seq[(String, KeyStateEncoderSpec)] = Seq(
    TimeFirst -> TimestampAsPrefixKeyStateEncoderSpec(key),
    "time last" -> TimestampAsPostfixKeyStateEncoderSpec(key)
  )

  def open(
      provider: StateStoreProvider,
      version: Long,
      id: Option[String] = None,
      withBase: Boolean = false,
      isEmpty: Boolean = false
  ): StateStore = provider.getStore(version, id, withBase, isEmpty)

  def upgrade(
      provider: StateStoreProvider,
      read: ReadStateStore,
      version: Long,
      id: Option[String] = None,
      withBase: Boolean = false
  ): StateStore = provider.upgradeReadStoreToWriteStore(read, version, id, withBase)

  /** The number of columns of a prefix scan before a time. */
  def beforeTime(spec: KeyStateEncoderSpec): Option[Int] = spec match {
    case last: TimestampAsPostfixKeyStateEncoderSpec => Some(last.keySchema.length - 1)
    case _                                           => None
  }
}
