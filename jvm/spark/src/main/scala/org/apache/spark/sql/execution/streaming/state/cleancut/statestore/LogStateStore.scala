package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.io.IOException

import scala.util.control.NonFatal

import org.apache.hadoop.fs.FSError

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.PendingFrame
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  FamilyHandle,
  RangeOrder
}
import org.apache.spark.sql.types.StructType

import io.cleancut.base.StateVersion
import io.cleancut.engine.{DeltaWriter, Record, StateLog}
import io.cleancut.error.Errors
import io.cleancut.format.FrameKind
import io.cleancut.format.frame.{FamilySchema, FrameWriter, Parent}

/** How a task opened a store for writing. */
final private[cleancut] case class WriteRequest(
    version: Long,
    baseId: Option[String],
    // Whether to write a full snapshot with the commit, which Spark requests for lagging stores.
    withBase: Boolean,
    // Whether the complete state is written, so that there is no version to apply a delta to.
    withoutDelta: Boolean,
    // The version that counts instead of the created one, if the epoch is finished from its seal.
    sealedAs: Option[StateVersion] = None
) {
  def hasDelta: Boolean = !withoutDelta && sealedAs.isEmpty
}

/**
 * A store that a task writes: version `v` and the changes that lead to `v + 1`. The changes are
 * appended to the store's log; [[commit]] writes them as one delta and seals them, [[abort]] undoes
 * them. In an epoch that is finished from its seal, [[commit]] loads the sealed version instead.
 */
final private[cleancut] class LogStateStore(
    context: StoreContext,
    versions: StoreVersions,
    lease: StoreLease,
    log: StateLog,
    request: WriteRequest
) extends StoreHandle(context, log) {
  import LogStateStore._

  private val start: StateLog.Version = log.latest
  private val target = StateVersion(request.version + 1, StateVersion.newId(context.clock))
  private val delta: Option[Delta] = Option.when(request.hasDelta)(new Delta)
  @volatile private var state: State = Updating
  // An error within a change leaves the log in an undefined state; it is not used again.
  @volatile private var isLogSound = true

  log.declare(context.families.default)

  override def version: Long = request.version

  override def put(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = {
    spinLock.enter()
    try {
      val family = use("put", colFamilyName)
      requireKey(key)
      require(value != null, "Cannot put a null value")
      try {
        family.table.put(family.pointKey(key), family.pointValue(value))
        if (family.cursor != null) family.cursor.keepUp()
      } catch { case e: Throwable => throw discardLog(e) }
    } finally spinLock.leave()
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    spinLock {
      val family = useMultiValued("putList", colFamilyName)
      requireKey(key)
      requireValues(values, "put")
      changing(family)(mergeAll(family, key, values, replaces = true))
    }

  override def merge(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = {
    spinLock.enter()
    try {
      val family = useMultiValued("merge", colFamilyName)
      requireKey(key)
      require(value != null, "Cannot merge a null value")
      changing(family)(family.table.merge(family.pointKey(key), family.pointValue(value)))
    } finally spinLock.leave()
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    spinLock {
      val family = useMultiValued("mergeList", colFamilyName)
      requireKey(key)
      requireValues(values, "merge")
      changing(family)(mergeAll(family, key, values, replaces = false))
    }

  private def mergeAll(
      family: FamilyHandle,
      key: UnsafeRow,
      values: Array[UnsafeRow],
      replaces: Boolean
  ): Unit =
    family.table.mergeList(family.pointKey(key), values.length, replaces) { i =>
      family.pointValue(values(i))
    }

  override def remove(key: UnsafeRow, colFamilyName: String): Unit = {
    spinLock.enter()
    try {
      val family = use("remove", colFamilyName)
      requireKey(key)
      try
        if (family.table.remove(family.pointKey(key)) && family.cursor != null)
          family.cursor.keepUp()
      catch { case e: Throwable => throw discardLog(e) }
    } finally spinLock.leave()
  }

  override def deleteRange(
      beginKey: UnsafeRow,
      endKey: UnsafeRow,
      colFamilyName: String
  ): Unit = spinLock {
    val family = use("deleteRange", colFamilyName)
    if (beginKey == null || endKey == null) {
      throw new IllegalStateException("Begin and end key cannot be null")
    }
    val order = family.order.collect { case range: RangeOrder => range }.getOrElse {
      throw new IllegalStateException(NeedsRange)
    }
    val stretch = order.rangeStretch(Some(beginKey), Some(endKey))
    val rows = family.scan(stretch)
    val row = new UnsafeRow(family.keyFields)
    while (rows.advance()) {
      val key = family.keyAt(row, rows.address)
      if (stretch.accepts(key)) changing(family)(family.table.remove(family.pointKey(key)))
    }
  }

  override def createColFamilyIfAbsent(
      colFamilyName: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = spinLock {
    verifyOpen("createColFamilyIfAbsent")
    val schema = context.families.create(
      colFamilyName,
      keyStateEncoderSpec,
      valueSchema,
      useMultipleValuesPerKey,
      isInternal
    )
    val before = log.family(colFamilyName)
    if (!before.contains(log.declare(schema))) forget(colFamilyName)
  }

  override def removeColFamilyIfExists(colFamilyName: String): Boolean = spinLock {
    verifyOpen("removeColFamilyIfExists")
    context.families.checkChange("remove_col_family", colFamilyName, isInternal = false)
    val isDropped =
      try log.drop(colFamilyName)
      catch { case e: Throwable => throw discardLog(e) }
    if (isDropped) {
      context.families.remove(colFamilyName)
      forget(colFamilyName)
    }
    isDropped
  }

  override def commit(): Long = {
    BeforeCommit.run(id)
    spinLock {
      verifyOpen("commit")
      if (!isLogSound) {
        throw StateStoreErrors.stateStoreOperationOutOfOrder(s"commit after a change failed: $this")
      }
      state = Committing
    }
    val began = context.clock.monotonicNs()
    try {
      spinLock(log.completeIfWanted())
      if (start.number == 0L || request.withoutDelta) context.files.markRoot()
      delta.foreach(_.commit())
      log.seal(target, context.versionsInMemory)
      request.sealedAs match {
        case Some(counted) => versions.takeOver(counted)
        case None          =>
          if (request.withBase || request.withoutDelta) {
            spinLock(log.complete())
            BaseWriter.write(context, versions, log)
          }
      }
      state = Committed
      SparkStoreReports.commit(context, target)
      context.metrics.commitNs.addAndGet(context.clock.monotonicNs() - began)
      Compactor.consider(context, versions)
      target.number
    } catch {
      case NonFatal(e) =>
        state = Committing
        throw QueryExecutionErrors.failedToCommitStateFileError(toString, explained(e))
    } finally if (state == Committed) lease.release()
  }

  override def abort(): Unit = state match {
    case Updating | Committing =>
      try {
        spinLock {
          state = Aborted
          val isUndone = isLogSound && log.versions.contains(start) && log.tryRewindTo(start)
          if (!isUndone) versions.drop(log)
        }
        delta.foreach(_.cancel())
      } finally lease.release()
    case Committed => throw outOfOrder("abort")
    case Aborted   => ()
  }

  override def release(): Unit = throw outOfOrder("release")

  override def hasCommitted: Boolean = state == Committed

  /** While the store is open, only its sizes: counters are reported once, at the end. */
  override def metrics: StateStoreMetrics = spinLock {
    val counted = state match {
      case Updating            => Map.empty[StateStoreCustomMetric, Long]
      case Committed | Aborted => context.metrics.drain()
      case Committing          => throw outOfOrder("metrics")
    }
    context.metricsOf(log, log.keys, counted)
  }

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = {
    verifyEnded("getStateStoreCheckpointInfo")
    val withIds = context.request.conf.enableStateStoreCheckpointIds
    StateStoreCheckpointInfo(
      context.store.partition,
      target.number,
      if (withIds) Some(request.sealedAs.getOrElse(target).id) else None,
      if (withIds) start.id else None
    )
  }

  override protected def openFamily(name: String): Option[FamilyHandle] =
    log.family(name).map { family =>
      val opened = context.handle(family.schema, family.table, Record.NoBound)
      delta.foreach(d => opened.cursor = d.writer.cursor(family))
      opened
    }

  override private[cleancut] def verifyOpen(operation: String): Unit =
    if (state != Updating) throw outOfOrder(operation)

  /** Runs a change, and lets the delta keep up. */
  private def changing(family: FamilyHandle)(change: => Any): Unit =
    try {
      change
      if (family.cursor != null) family.cursor.keepUp()
    } catch { case e: Throwable => throw discardLog(e) }

  private def requireValues(values: Array[UnsafeRow], operation: String): Unit = {
    require(values != null, s"Cannot $operation a null value")
    require(!values.contains(null), s"Cannot $operation a null value in the array")
  }

  private def discardLog(cause: Throwable): Throwable = {
    isLogSound = false
    explained(cause)
  }

  /**
   * A large delta is written while the task runs, so a full disk may cause an error in any change.
   */
  private def explained(cause: Throwable): Throwable = cause match {
    // Hadoop's local file system reports a full disk with an error of its own.
    case _: IOException | _: FSError =>
      val kind = if (request.withoutDelta) FrameKind.Base else FrameKind.Delta
      Errors.commitFailed(context.files.path(target, kind), target.number, cause)
    case _ => cause
  }

  private def verifyEnded(operation: String): Unit =
    if (state != Committed && state != Aborted) throw outOfOrder(operation)

  /** The frame of this commit, and its writer, which runs while the task works. */
  final private class Delta extends DeltaWriter.Frames {
    var file: PendingFrame = context.files.create(target, FrameKind.Delta)
    val writer: DeltaWriter = log.deltaTo(this, context.settings.keepsReplaced)
    private var frame: FrameWriter = _

    override def begin(families: Seq[FamilySchema]): FrameWriter = {
      if (frame != null) {
        file.cancel()
        file = context.files.create(target, FrameKind.Delta)
      }
      val parent = Some(Parent(start.number, start.id))
      frame = context.frame(FrameKind.Delta, target, parent, families, Map.empty, file)
      frame
    }

    def cancel(): Unit = {
      writer.cancel()
      file.cancel()
    }

    def commit(): Unit = {
      writer.finish()
      file.commit()
      context.metrics.commitBytes.addAndGet(frame.sizeBytes)
      versions.deltaWritten(frame.sizeBytes)
    }
  }

  private def outOfOrder(operation: String): Throwable =
    StateStoreErrors.stateStoreOperationOutOfOrder(s"$operation after the store was $state: $this")

  override def toString: String = s"LogStateStore[$context, version=$version, $state]"
}

private[cleancut] object LogStateStore {
  private val NeedsRange =
    "deleteRange requires a RangeKeyScanStateEncoderSpec for ordered key encoding"

  sealed abstract private class State(name: String) {
    override def toString: String = name
  }
  private case object Updating extends State("opened")
  private case object Committing extends State("about to be committed")
  private case object Committed extends State("committed")
  private case object Aborted extends State("aborted")
}
