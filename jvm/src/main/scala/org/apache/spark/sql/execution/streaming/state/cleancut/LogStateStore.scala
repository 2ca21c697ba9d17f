package org.apache.spark.sql.execution.streaming.state.cleancut

import java.io.IOException

import scala.util.control.NonFatal

import org.apache.hadoop.fs.FSError

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.cleancut.StateVersion
import io.cleancut.engine.{Bytes, DeltaWriter, Record, StateLog}
import io.cleancut.error.Errors
import io.cleancut.format.{FrameKind, FrameWriter, Parent}

/** How a task opened a store for writing. */
final private[cleancut] case class WriteRequest(
    version: Long,
    baseId: Option[String],
    // A full snapshot is written with the commit, as Spark asks of a store that lags behind.
    withBase: Boolean,
    // The state is written anew: there is no version to apply a delta to.
    withoutDelta: Boolean
)

/**
 * A store that a task writes: version `v` and the changes that lead to `v + 1`. The changes are
 * appended to the store's log; [[commit]] writes them as one delta and seals them, [[abort]] undoes
 * them.
 */
final private[cleancut] class LogStateStore(
    context: StoreContext,
    versions: StoreVersions,
    stay: StoreStay,
    current: StoreVersions.Current,
    request: WriteRequest
) extends StoreHandle(context, current, Record.NoBound)
    with StateStore {
  import LogStateStore._

  private val start: StateLog.Version = log.latest
  private val target = StateVersion(request.version + 1, StateVersion.newId(context.clock))
  private val delta: Option[Delta] = if (request.withoutDelta) None else Some(new Delta)
  private val keyBytes = new Bytes
  private val valueBytes = new Bytes

  @volatile private var state: State = Updating
  // An error in the middle of a change leaves the log in doubt; it is not used again.
  @volatile private var isLogSound = true

  override def version: Long = request.version

  override def put(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = {
    gate.enter()
    try {
      verifyUse("put", colFamilyName)
      requireKey(key)
      require(value != null, "Cannot put a null value")
      try {
        log.put(point(keyBytes, key), point(valueBytes, value))
        if (delta.isDefined) delta.get.writer.keepUp()
      } catch { case e: Throwable => throw inDoubt(e) }
    } finally gate.leave()
  }

  override def remove(key: UnsafeRow, colFamilyName: String): Unit = {
    gate.enter()
    try {
      verifyUse("remove", colFamilyName)
      requireKey(key)
      try
        if (log.remove(point(keyBytes, key)) && delta.isDefined) delta.get.writer.keepUp()
      catch { case e: Throwable => throw inDoubt(e) }
    } finally gate.leave()
  }

  override def commit(): Long = {
    gate {
      verifyOpen("commit")
      if (!isLogSound) {
        throw StateStoreErrors.stateStoreOperationOutOfOrder(s"commit after a change failed: $this")
      }
      state = Committing
    }
    val began = context.clock.monotonicNs()
    try {
      if (start.number == 0L || request.withoutDelta) context.files.markRoot()
      delta.foreach(_.commit())
      log.seal(target, context.versionsInMemory)
      if (request.withBase || request.withoutDelta) BaseWriter.write(context, versions, log)
      state = Committed
      StateStore.reportCommitToCoordinator(target.number, id, context.request.hadoopConf)
      context.metrics.commitNs.addAndGet(context.clock.monotonicNs() - began)
      Compactor.consider(context, versions)
      target.number
    } catch {
      case NonFatal(e) =>
        state = Committing
        throw QueryExecutionErrors.failedToCommitStateFileError(toString, explained(e))
    } finally if (state == Committed) stay.done()
  }

  override def abort(): Unit = state match {
    case Updating | Committing =>
      try {
        gate {
          state = Aborted
          val isUndone = isLogSound && log.versions.contains(start) && log.tryRewindTo(start)
          if (!isUndone) versions.drop(log)
        }
        delta.foreach(_.file.cancel())
      } finally stay.done()
    case Committed => throw outOfOrder("abort")
    case Aborted   => ()
  }

  override def release(): Unit = throw outOfOrder("release")

  override def hasCommitted: Boolean = state == Committed

  override def metrics: StateStoreMetrics = {
    verifyEnded("metrics")
    val sizes: Map[StateStoreCustomMetric, Long] =
      Map(StoreMetrics.LiveBytes -> log.liveBytes, StoreMetrics.DeadBytes -> log.deadBytes)
    StateStoreMetrics(log.keys, log.usedBytes, context.metrics.drain() ++ sizes)
  }

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = {
    verifyEnded("getStateStoreCheckpointInfo")
    val withIds = context.request.conf.enableStateStoreCheckpointIds
    StateStoreCheckpointInfo(
      context.store.partition,
      target.number,
      if (withIds) Some(target.id) else None,
      if (withIds) start.id else None
    )
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    throw unsupported("putList", OneValue)

  override def merge(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit =
    throw unsupported("merge", OneValue)

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    throw unsupported("mergeList", OneValue)

  override def createColFamilyIfAbsent(
      colFamilyName: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit =
    throw StateStoreErrors.multipleColumnFamiliesNotSupported(ProviderName)

  override def removeColFamilyIfExists(colFamilyName: String): Boolean =
    throw StateStoreErrors.removingColumnFamiliesNotSupported(ProviderName)

  override protected def verifyOpen(operation: String): Unit =
    if (state != Updating) throw outOfOrder(operation)

  private def inDoubt(cause: Throwable): Throwable = {
    isLogSound = false
    explained(cause)
  }

  /** A large delta is written while the task works, so a full disk may show at any change. */
  private def explained(cause: Throwable): Throwable = cause match {
    // Hadoop's local file system reports a full disk by an error of its own.
    case _: IOException | _: FSError =>
      val kind = if (request.withoutDelta) FrameKind.Base else FrameKind.Delta
      Errors.commitFailed(context.files.path(target, kind), target.number, cause)
    case _ => cause
  }

  private def verifyEnded(operation: String): Unit =
    if (state != Committed && state != Aborted) throw outOfOrder(operation)

  /** The file of this commit, and what writes it while the task works. */
  final private class Delta {
    val file: PendingFile = context.files.create(target, FrameKind.Delta)
    val writer: DeltaWriter = log.deltaTo(() => frame)
    private lazy val frame: FrameWriter = context.frame(
      FrameKind.Delta,
      target,
      Some(Parent(start.number, start.id)),
      versions.familiesFor(start.number),
      None,
      file
    )

    def commit(): Unit = {
      writer.finish()
      file.commit()
      context.metrics.commitBytes.addAndGet(frame.sizeBytes)
      versions.deltaWritten(target.number, frame.sizeBytes)
    }
  }

  private def outOfOrder(operation: String): Throwable =
    StateStoreErrors.stateStoreOperationOutOfOrder(s"$operation after the store was $state: $this")

  override def toString: String = s"LogStateStore[$context, version=$version, $state]"
}

private[cleancut] object LogStateStore {
  private val OneValue = "a key has one value in this store"
  private val ProviderName = "CleancutStateStoreProvider"

  sealed abstract private class State(name: String) {
    override def toString: String = name
  }
  private case object Updating extends State("opened")
  private case object Committing extends State("about to be committed")
  private case object Committed extends State("committed")
  private case object Aborted extends State("aborted")
}
