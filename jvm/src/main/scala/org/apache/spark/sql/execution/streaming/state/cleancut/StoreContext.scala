package org.apache.spark.sql.execution.streaming.state.cleancut

import java.nio.ByteOrder
import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.cleancut.{Clock, StateVersion, StoreId}
import io.cleancut.conf.Settings
import io.cleancut.engine.{Memory, RankOf, Record, StateLog}
import io.cleancut.error.Errors
import io.cleancut.format.{FamilySchema, FrameIdentity, FrameKind, FrameWriter, Parent}

/** What Spark hands to `StateStoreProvider.init`. */
final private[cleancut] case class InitRequest(
    id: StateStoreId,
    keySchema: StructType,
    valueSchema: StructType,
    encoder: KeyStateEncoderSpec,
    conf: StateStoreConf,
    hadoopConf: Configuration
)

/** What all parts of one provider share. */
final private[cleancut] class StoreContext(val request: InitRequest, val clock: Clock) {
  val settings: Settings = Settings.from(request.conf.sqlConfs)

  val store: StoreId =
    StoreId(request.id.operatorId, request.id.partitionId, request.id.storeName)

  val files: StoreFiles = new StoreFiles(
    store,
    StoreFiles.checkpointOf(request.id.checkpointRootLocation),
    request.id.storeCheckpointLocation(),
    request.hadoopConf
  )

  val metrics = new StoreMetrics

  val gate = new Gate

  val access = new StoreAccess(store, settings.acquireTimeoutMs, clock)

  /** How many of the latest versions stay in memory: the one to write on, at least. */
  val versionsInMemory: Int = Math.max(request.conf.maxVersionsToRetainInMemory, 1)

  val families: Seq[FamilySchema] = Seq(
    FamilySchema(
      StateLog.DefaultFamily,
      StateStore.DEFAULT_COL_FAMILY_NAME,
      request.keySchema.json,
      request.valueSchema.json,
      request.encoder.json
    )
  )

  /** A new one for each log, since it reuses its rows and is not thread-safe. */
  def newRank(): Option[PrefixRank] = request.encoder match {
    case spec: PrefixKeyScanStateEncoderSpec =>
      Some(new PrefixRank(spec.keySchema, spec.numColsPrefixKey, Memory.access))
    case _ => None
  }

  def newLog(rank: Option[RankOf]): StateLog = new StateLog(store, rank)

  def frame(
      kind: FrameKind,
      version: StateVersion,
      parent: Option[Parent],
      families: Seq[FamilySchema],
      keys: Option[Long],
      out: PendingFile
  ): FrameWriter =
    new FrameWriter(
      kind,
      FrameIdentity(store, version, parent, families, keys),
      settings.compressionLevel,
      out
    )

  lazy val providerId: StateStoreProviderId = StateStoreProviderId(
    request.id,
    UUID.fromString(StateStoreProvider.getRunId(request.hadoopConf))
  )

  /** Tells the driver that a base is there, so that it does not take the store for a laggard. */
  def reportBase(version: Long): Unit = if (request.conf.reportSnapshotUploadLag) {
    StateStoreProvider.coordinatorRef.foreach(
      _.snapshotUploaded(providerId, version, clock.wallMs())
    )
  }

  /**
   * Spark's check that rows fit their schemas, for a row of a log as it was loaded. What a running
   * query puts is not checked: some of Spark's operators store wider values than their schema says.
   */
  def validateLoaded(log: StateLog): Unit = {
    val memory = Memory.access
    val rows = log.scan(Record.NoBound)
    if (rows.advance()) {
      val key = new UnsafeRow(request.keySchema.length)
      val value = new UnsafeRow(request.valueSchema.length)
      val keyLength = Record.keyLength(memory, rows.address)
      key.pointTo(null, Record.keyAddress(rows.address), keyLength)
      value.pointTo(
        null,
        Record.valueAddress(rows.address, keyLength),
        Record.valueLength(memory, rows.address)
      )
      StateStoreProvider.validateStateRowFormat(
        key,
        request.keySchema,
        value,
        request.valueSchema,
        request.id,
        request.conf
      )
    }
  }

  override def toString: String = s"CleancutStateStore[$store, ${files.location}]"
}

private[cleancut] object StoreContext {

  /** Refuses what this release cannot do, before anything is touched. */
  def check(
      useColumnFamilies: Boolean,
      useMultipleValues: Boolean,
      encoder: KeyStateEncoderSpec
  ) = {
    if (ByteOrder.nativeOrder != ByteOrder.LITTLE_ENDIAN) {
      throw Errors.platformUnsupported("the processor is big-endian")
    }
    if (useColumnFamilies || useMultipleValues) {
      throw Errors.unsupportedFeature(
        "column families",
        "transformWithState and stream-stream joins of state format 3 and above need them"
      )
    }
    encoder match {
      case _: NoPrefixKeyStateEncoderSpec | _: PrefixKeyScanStateEncoderSpec => ()
      case other                                                             =>
        throw Errors.unsupportedFeature(
          s"the key encoding ${other.getClass.getSimpleName}",
          "keys are stored plain or ordered by prefix"
        )
    }
  }
}
