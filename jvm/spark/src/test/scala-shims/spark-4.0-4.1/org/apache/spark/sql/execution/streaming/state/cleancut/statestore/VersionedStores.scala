package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.annotation.unused

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Opening of stores in this line of Spark, and missing features of its own stores. */
object VersionedStores {
  val TimeFirst = "time first"

  /** Whether Spark's own stores scan and delete ranges of keys. */
  val HaveRanges: Boolean = false

  /** Keys with a time, by the time's position. */
  def timed(@unused key: StructType): Seq[(String, KeyStateEncoderSpec)] = Nil

  def open(
      provider: StateStoreProvider,
      version: Long,
      id: Option[String] = None,
      withBase: Boolean = false,
      isEmpty: Boolean = false
  ): StateStore = provider match {
    case cleancut: LogStateStoreProvider => cleancut.getStore(version, id, withBase, isEmpty)
    case spark                           => spark.getStore(version, id)
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

  /** The number of columns of a prefix scan before a time. */
  def beforeTime(@unused spec: KeyStateEncoderSpec): Option[Int] = None
}
