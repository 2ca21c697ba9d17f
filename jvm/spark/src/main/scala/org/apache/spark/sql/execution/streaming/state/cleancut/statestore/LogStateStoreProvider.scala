package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{InstalledJars, SparkCalls}
import org.apache.spark.sql.types.StructType

import io.cleancut.protocol.BasePlan

/**
 * Spark's interface of a state store provider, with a [[io.cleancut.engine.StateLog]] for each
 * store and frames below the checkpoint location.
 *
 * It extends Spark's RocksDB provider because Spark 4.3 uses the newer state formats of
 * stream-stream joins only for that class and its subclasses, and silently falls back to an older
 * format for other classes. Nothing of it is used: every method is overridden, and RocksDB is never
 * loaded.
 *
 * Order of calls: `init` once; then any number of times `getStore` or `getReadStore`, each followed
 * by `commit`, `abort` or `release`; `do…Maintenance` at any time, in other threads; `close` once,
 * possibly while a handle is open, which then keeps its memory until it is done.
 *
 * The classes that the JVM needs to verify this class are in the jar of the Spark version. Without
 * the jar that all versions share, the check that reports the missing jar must still run.
 */
class LogStateStoreProvider
    extends RocksDBStateStoreProvider
    with SparkProviderApi
    with InstanceMetrics {
  InstalledJars.check()

  @volatile private var context: StoreContext = _
  @volatile private var versions: StoreVersions = _
  @volatile private var cleanedTo = 0L

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    StoreContext.check(useColumnFamilies, useMultipleValuesPerKey)
    val request = InitRequest(
      stateStoreId,
      keySchema,
      valueSchema,
      keyStateEncoderSpec,
      useColumnFamilies,
      useMultipleValuesPerKey,
      storeConfs,
      hadoopConf,
      stateSchemaProvider
    )
    context = StoreContext.of(request)
    versions = new StoreVersions(context)
  }

  override def stateStoreId: StateStoreId = context.request.id

  override def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = {
    val request = WriteRequest(version, stateStoreCkptId, forceSnapshotOnCommit, loadEmpty)
    loading(version) {
      StoreLease.open(context, versions, version)(openForWrite(request, _)) { store =>
        if (!store.hasCommitted) store.abort()
      }
    }
  }

  override def getReadStore(version: Long, uniqueId: Option[String]): StateStore =
    loading(version) {
      StoreLease.open(context, versions, version)(openForRead(version, uniqueId, _))(_.release())
    }

  /** The read store stays open together with the write store; both belong to one task. */
  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore =
    getStore(version, uniqueId, forceSnapshotOnCommit, loadEmpty = false)

  override def replayStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStore = loading(endVersion) {
    if (snapshotVersion < 1 || endVersion < snapshotVersion) {
      throw QueryExecutionErrors.unexpectedStateStoreVersion(
        if (snapshotVersion < 1) snapshotVersion else endVersion
      )
    }
    def open(lease: StoreLease): StateStore = {
      val log = versions.openReplay(
        snapshotVersion,
        snapshotVersionStateStoreCkptId,
        endVersion,
        endVersionStateStoreCkptId
      )
      lease.keep(log)
      if (readOnly) new LogReadStateStore(context, lease, log, log.latest)
      else {
        val request = WriteRequest(endVersion, endVersionStateStoreCkptId, false, false)
        new LogStateStore(context, versions, lease, log, request)
      }
    }
    StoreLease.open(context, versions, endVersion)(open)(store =>
      if (!store.hasCommitted) store.abort()
    )
  }

  override def replayReadStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): ReadStateStore = replayStateFromSnapshot(
    snapshotVersion,
    endVersion,
    readOnly = true,
    snapshotVersionStateStoreCkptId,
    endVersionStateStoreCkptId
  )

  override def getStateStoreChangeDataReader(
      startVersion: Long,
      endVersion: Long,
      colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStoreChangeDataReader = loading(endVersion) {
    val family = colFamilyNameOpt.getOrElse(StateStore.DEFAULT_COL_FAMILY_NAME)
    context.files.checkRoot()
    val (deltas, before) =
      versions.changes(startVersion, endVersion, endVersionStateStoreCkptId, family)
    new ChangeReader(context, deltas, before, family, startVersion, endVersion)
  }

  private val isFirstWrite = new AtomicBoolean(true)

  override def latestVersion: Long = versions.position.fold(0L)(_.latest)

  override protected def writeDueBase(): Unit = runMaintenance("writing a base") {
    if (versions.position.exists(BasePlan.isDue)) {
      versions.retainCurrent().foreach { log =>
        try
          if (ReadThrough.complete(context, versions, log)) BaseWriter.write(context, versions, log)
        finally log.release()
      }
    }
  }

  override protected def deleteOldFrames(): Unit = runMaintenance("deleting old frames") {
    val conf = context.request.conf
    versions.position.foreach { position =>
      val keepFrom = position.latest - conf.minVersionsToRetain
      if (keepFrom > 0 && keepFrom - cleanedTo >= Math.max(conf.minVersionsToDelete, 1L)) {
        val limit = SparkCalls.maxVersionsToDelete(conf)
        val maxNumbers = if (limit < 0) Int.MaxValue else limit
        if (context.files.deleteBefore(keepFrom, maxNumbers)) cleanedTo = keepFrom
      }
    }
  }

  override def doMaintenance(): Unit = {
    writeDueBase()
    deleteOldFrames()
  }

  override def close(): Unit = if (versions != null) versions.close()

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] = StoreMetrics.all

  override def logName: String = classOf[LogStateStoreProvider].getName

  private def openForWrite(request: WriteRequest, lease: StoreLease): LogStateStore = {
    val opened = context.files.open(request.version, request.baseId)
    val log =
      if (request.withoutDelta) versions.openEmpty(request.version, opened.accepted)
      else versions.openForWrite(request.version, opened.accepted)
    lease.keep(log)
    // A run that ends before its first maintenance would never write one.
    val isOverdue = isFirstWrite.getAndSet(false) && !opened.mayDeferBase &&
      versions.position.exists(BasePlan.isOverdue)
    val withBase = request.withBase || opened.needsBase || isOverdue
    val sealedAs = opened.sealedChain.map(_.version)
    val adjusted = request.copy(withBase = withBase, sealedAs = sealedAs)
    new LogStateStore(context, versions, lease, log, adjusted)
  }

  private def openForRead(
      version: Long,
      id: Option[String],
      lease: StoreLease
  ): LogReadStateStore = {
    val (log, read) = versions.openForRead(version, context.files.accepted(version, id))
    lease.keep(log)
    new LogReadStateStore(context, lease, log, read)
  }

  private def loading[A](version: Long)(body: => A): A = {
    if (versions == null) throw LoadFailures.beforeInit(toString)
    if (version < 0) throw QueryExecutionErrors.unexpectedStateStoreVersion(version)
    try body
    catch {
      case NonFatal(e) => throw LoadFailures.ofSpark(context.files.location, version, e)
    }
  }

  // Spark closes the provider after an exception of maintenance and loads it again. The failed work
  // is only postponed: the next round repeats it, and the state in memory is intact.
  private def runMaintenance(what: String)(body: => Unit): Unit =
    try body
    catch {
      case NonFatal(e) =>
        logWarning(s"Maintenance of $context ($what) failed and will be retried", e)
    }

  override def toString: String = if (context == null) "CleancutStateStore[]" else context.toString
}
