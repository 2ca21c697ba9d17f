package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.annotation.unused

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** How this line of Spark opens stores, and what its own cannot. */
object VersionedStores {
  val TimeFirst = "time first"

  /** Whether Spark's own stores scan between two keys, and delete them. */
  val HaveRanges: Boolean = false

  /** Keys with a time, by which of its ends it is at. */
  def timed(@unused key: StructType): Seq[(String, KeyStateEncoderSpec)] = Nil

  def open(
      provider: StateStoreProvider,
      version: Long,
      id: Option[String] = None,
      withBase: Boolean = false,
      isEmpty: Boolean = false
  ): StateStore = provider match {
    case own: LogStateStoreProvider => own.getStore(version, id, withBase, isEmpty)
    case spark                      => spark.getStore(version, id)
  }

  def upgrade(
      provider: StateStoreProvider,
      read: ReadStateStore,
      version: Long,
      id: Option[String] = None,
      withBase: Boolean = false
  ): StateStore = provider
    .asInstanceOf[LogStateStoreProvider]
    .upgradeReadStoreToWriteStore(read, version, id, withBase)

  /** The columns that a prefix scan is by, where a time comes behind them. */
  def beforeTime(@unused spec: KeyStateEncoderSpec): Option[Int] = None
}
