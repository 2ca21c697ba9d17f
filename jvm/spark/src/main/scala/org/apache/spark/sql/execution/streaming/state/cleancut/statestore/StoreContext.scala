package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.ByteOrder

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SharedStores
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.GroupedFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.{
  FrameFiles,
  PendingFrame,
  StoreFiles
}
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.LocalDirectory
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.locks.{
  SpinLock,
  StoreLock
}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  FamilyHandle,
  SparkKeyOrder
}
import org.apache.spark.sql.types.StructType

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.conf.Settings
import io.cleancut.cutstore.CutsInUse
import io.cleancut.engine.{KeyOrder, Record, StateLog, Table}
import io.cleancut.engine.memory.{Memory, MemoryAccount}
import io.cleancut.error.Errors
import io.cleancut.format.FrameKind
import io.cleancut.format.frame.{FamilySchema, FrameIdentity, FrameWriter, Parent}
import io.cleancut.objectstore.ObjectStore

/** The arguments of `StateStoreProvider.init`. */
final private[cleancut] case class InitRequest(
    id: StateStoreId,
    keySchema: StructType,
    valueSchema: StructType,
    encoder: KeyStateEncoderSpec,
    usesFamilies: Boolean,
    isMultiValued: Boolean,
    conf: StateStoreConf,
    hadoopConf: Configuration,
    schemas: Option[StateSchemaProvider]
)

/** The shared objects of one provider. */
final private[cleancut] class StoreContext(
    val request: InitRequest,
    val clock: Clock,
    memory: Memory = Memory.access
) {
  val settings: Settings = Settings.from(request.conf.sqlConfs)

  MemoryAccount.process.limit(
    settings.maxOffHeapBytes(Runtime.getRuntime.maxMemory),
    () => LocalDirectory.get
  )
  ProcessMetrics.begin()

  val store: StoreId =
    StoreId(request.id.operatorId, request.id.partitionId, request.id.storeName)

  /** Computed on first use: Spark holds a process-wide lock in `init`. */
  lazy val files: FrameFiles = {
    val checkpoint = StoreFiles.checkpointOf(request.id.checkpointRootLocation)
    val sparkDirectory = request.id.storeCheckpointLocation()
    val ofStore = new StoreFiles(store, checkpoint, sparkDirectory, request.hadoopConf)
    rootOfCuts(checkpoint, ofStore).fold[FrameFiles](ofStore) { root =>
      new GroupedFiles(
        store,
        checkpoint.toString,
        root,
        ofStore,
        request.hadoopConf,
        settings.localCacheBytes,
        settings.standbyReplicas,
        clock
      )
    }
  }

  /** The location of the frames of a query whose epochs are committed by cuts. */
  private def rootOfCuts(checkpoint: Path, ofStore: StoreFiles): Option[ObjectStore] = {
    val runId = request.hadoopConf.get(StreamExecution.RUN_ID_KEY, "")
    val isWithCuts = SharedStores.isInBucket(checkpoint) || settings.cuts.contains(true) ||
      CutsInUse.by(checkpoint.toString, runId)(ofStore.hasCuts)
    Option.when(isWithCuts)(
      SharedStores.rootOf(checkpoint, settings.objectStore, request.hadoopConf)
    )
  }

  val metrics = new StoreMetrics

  val spinLock = new SpinLock

  val storeLock = new StoreLock(store, settings.lockAcquireTimeoutMs, clock)

  /** Number of latest versions in memory: at least the one to write on. */
  val versionsInMemory: Int = Math.max(request.conf.maxVersionsToRetainInMemory, 1)

  val families = new StoreFamilies(request)

  def newLog(): StateLog = new StateLog(store, orderOf, memory)

  /** A new instance at each call: an order is used by one thread at a time. */
  def orderOf(schema: FamilySchema): Option[KeyOrder] =
    SparkKeyOrder.of(schema, memory, request.schemas)

  def handle(schema: FamilySchema, table: Table, bound: Int): FamilyHandle =
    new FamilyHandle(families.kind(schema), table, bound, memory)

  def frame(
      kind: FrameKind,
      version: StateVersion,
      parent: Option[Parent],
      families: Seq[FamilySchema],
      familyKeys: Map[Int, Long],
      out: PendingFrame
  ): FrameWriter = {
    val keys = if (kind == FrameKind.Base) Some(familyKeys.values.sum) else None
    val identity = FrameIdentity(store, version, parent, families, keys, familyKeys)
    new FrameWriter(kind, identity, settings.compressionLevel, out)
  }

  def reportBase(version: Long): Unit = {
    metrics.baseIsThere(version)
    SparkStoreReports.base(this, version)
  }

  /** The metrics that a store reports to Spark, with the counts since the last report. */
  def metricsOf(
      log: StateLog,
      keys: Long,
      counted: Map[StateStoreCustomMetric, Long]
  ): StateStoreMetrics =
    SparkStoreReports.metrics(
      this,
      keys,
      log.residentBytes,
      counted ++ StoreMetrics.sizes(log),
      metrics.newestBase
    )

  /**
   * Spark's check that rows match their schemas, for one row of a loaded log. Rows that a running
   * query puts are not checked: some of Spark's operators store wider values than their schema
   * states. Column families have separate schemas, which Spark does not check.
   */
  def validateLoaded(log: StateLog): Unit =
    if (!request.usesFamilies) {
      log.family(StateStore.DEFAULT_COL_FAMILY_NAME).foreach { family =>
        val row = family.table.anyRow()
        if (row != 0L) {
          val handle = this.handle(families.default, family.table, Record.NoBound)
          SparkStoreReports.checkFormat(
            this,
            handle.keyAt(new UnsafeRow(handle.keyFields), row),
            handle.pointAt(new UnsafeRow(handle.valueFields), row)
          )
        }
      }
    }

  override def toString: String = s"CleancutStateStore[$store, ${files.location}]"
}

private[cleancut] object StoreContext {
  def of(request: InitRequest): StoreContext = new StoreContext(request, Clock.System)

  /** Refuses unsupported features before anything is changed. */
  def check(usesFamilies: Boolean, isMultiValued: Boolean): Unit = {
    if (ByteOrder.nativeOrder != ByteOrder.LITTLE_ENDIAN) {
      throw Errors.platformUnsupported("the processor is big-endian")
    }
    require(
      usesFamilies || !isMultiValued,
      "Multiple values per key support requires column families to be enabled."
    )
  }
}
