package io.cleancut.suites

import java.util.UUID

import scala.util.Random

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.StateStoreTestsHelper._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import io.cleancut.CleancutStateStoreProvider

/** Spark's tests of both of its providers. */
class StateStoreContractSuite extends StateStoreSuiteBase[CleancutStateStoreProvider] {
  import StateStoreContractSuite._

  override def newStoreProvider(): CleancutStateStoreProvider = open()

  override def newStoreProvider(id: StateStoreId): CleancutStateStoreProvider = open(id)

  override def newStoreProvider(
      id: StateStoreId,
      useColumnFamilies: Boolean
  ): CleancutStateStoreProvider = open(id, useColumnFamilies = useColumnFamilies)

  override def newStoreProvider(
      id: StateStoreId,
      conf: Configuration
  ): CleancutStateStoreProvider = open(id, hadoopConf = conf)

  override def newStoreProvider(
      minDeltasForSnapshot: Int,
      versionsInMemory: Int
  ): CleancutStateStoreProvider =
    open(sqlConf = getDefaultSQLConf(minDeltasForSnapshot, versionsInMemory))

  override def newStoreProvider(
      keySchema: StructType,
      encoder: KeyStateEncoderSpec,
      useColumnFamilies: Boolean
  ): CleancutStateStoreProvider = open(
    keySchema = keySchema,
    encoder = Some(encoder),
    useColumnFamilies = useColumnFamilies
  )

  override def newStoreProvider(useColumnFamilies: Boolean): CleancutStateStoreProvider =
    open(useColumnFamilies = useColumnFamilies)

  override def newStoreProviderWithClonedConf(id: StateStoreId): CleancutStateStoreProvider =
    open(id, sqlConf = cloneSQLConf())

  override def newStoreProviderNoInit(): CleancutStateStoreProvider = new CleancutStateStoreProvider

  override def getLatestData(
      provider: CleancutStateStoreProvider,
      useColumnFamilies: Boolean
  ): Set[((String, Int), Int)] = getData(provider, -1, useColumnFamilies)

  override def getData(
      provider: CleancutStateStoreProvider,
      version: Int,
      useColumnFamilies: Boolean
  ): Set[((String, Int), Int)] = {
    val reader = open(provider.stateStoreId, useColumnFamilies = useColumnFamilies)
    try {
      val store = reader.getReadStore(if (version < 0) provider.latestVersion else version.toLong)
      try rowPairsToDataSet(store.iterator())
      finally store.release()
    } finally reader.close()
  }

  override def getDefaultSQLConf(minDeltasForSnapshot: Int, versionsInMemory: Int): SQLConf = {
    val conf = new SQLConf
    conf.setConf(SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT, minDeltasForSnapshot)
    conf.setConf(SQLConf.MAX_BATCHES_TO_RETAIN_IN_MEMORY, versionsInMemory)
    conf.setConf(SQLConf.MIN_BATCHES_TO_RETAIN, BatchesToRetain)
    conf
  }

  private def open(
      id: StateStoreId = StateStoreId(newDir(), Random.nextInt().toLong, 0),
      keySchema: StructType = keySchema,
      encoder: Option[KeyStateEncoderSpec] = None,
      useColumnFamilies: Boolean = false,
      sqlConf: SQLConf = getDefaultSQLConf(minDeltasForSnapshot = 4, versionsInMemory = 2),
      hadoopConf: Configuration = new Configuration
  ): CleancutStateStoreProvider = {
    val provider = new CleancutStateStoreProvider
    hadoopConf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID().toString)
    provider.init(
      id,
      keySchema,
      valueSchema,
      encoder.getOrElse(NoPrefixKeyStateEncoderSpec(keySchema)),
      useColumnFamilies,
      new StateStoreConf(sqlConf),
      hadoopConf
    )
    provider
  }
}

private object StateStoreContractSuite {
  // The same numbers as in Spark's subclasses.
  val BatchesToRetain = 2
}
