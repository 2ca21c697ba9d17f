package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** How this line of Spark opens stores, and what its own can. */
object VersionedStores {
  val TimeFirst = "time first"

  /** Whether Spark's own stores scan between two keys, and delete them. */
  val HaveRanges: Boolean = true

  /** Keys with a time, by which of its ends it is at. */
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

  /** The columns that a prefix scan is by, where a time comes behind them. */
  def beforeTime(spec: KeyStateEncoderSpec): Option[Int] = spec match {
    case last: TimestampAsPostfixKeyStateEncoderSpec => Some(last.keySchema.length - 1)
    case _                                           => None
  }
}
