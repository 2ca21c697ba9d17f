package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.FamilyHandle
import org.apache.spark.sql.types.StructType

import io.cleancut.engine.StateLog
import io.cleancut.error.Errors

/** A version of a store for a task that only reads. Later writes are not visible. */
final private[cleancut] class LogReadStateStore(
    context: StoreContext,
    lease: StoreLease,
    log: StateLog,
    val read: StateLog.Version
) extends StoreHandle(context, log) {
  @volatile private var isReleased = false

  override def version: Long = read.number

  override def abort(): Unit = release()

  override def release(): Unit = if (!isReleased) {
    spinLock { isReleased = true }
    lease.release()
  }

  override def hasCommitted: Boolean = false

  override def commit(): Long = throw readOnly("commit")

  override def put(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit =
    throw readOnly("put")

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    throw readOnly("putList")

  override def remove(key: UnsafeRow, colFamilyName: String): Unit = throw readOnly("remove")

  override def merge(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit =
    throw readOnly("merge")

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    throw readOnly("mergeList")

  /** Spark creates the families of a processor even if it only reads. */
  override def createColFamilyIfAbsent(
      colFamilyName: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit =
    declare(colFamilyName, valueSchema, keyStateEncoderSpec, useMultipleValuesPerKey, isInternal)

  override def removeColFamilyIfExists(colFamilyName: String): Boolean =
    throw readOnly("removeColFamilyIfExists")

  override def allColumnFamilyNames: Set[String] =
    read.schemas.map(_.name).toSet + StateStore.DEFAULT_COL_FAMILY_NAME

  override def metrics: StateStoreMetrics =
    context.metricsOf(log, read.keys, context.metrics.drain())

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo =
    throw readOnly("getStateStoreCheckpointInfo")

  override protected def openFamily(name: String): Option[FamilyHandle] =
    read.part(name) match {
      case Some(part) =>
        val schema = part.family.schema
        Some(context.handle(schema, part.family.table, part.mark.end))
      case None =>
        context.families.get(name).map(context.handle(_, null, 0))
    }

  override private[cleancut] def verifyOpen(operation: String): Unit =
    if (isReleased) throw Errors.storeClosed(context.store.toString, operation)

  private def readOnly(operation: String): Throwable =
    StateStoreErrors.stateStoreOperationOutOfOrder(
      s"$operation on a store that is only read: $this"
    )

  override def toString: String = s"LogReadStateStore[$context, version=$version]"
}
