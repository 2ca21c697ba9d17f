package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.util.ConcurrentModificationException

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.state.{
  OperatorStateMetadata,
  OperatorStateMetadataV1,
  OperatorStateMetadataV2,
  OperatorStateMetadataWriter
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.protocol.OffsetEntry

/**
 * An epoch of a stopped query without input: it ends where the previous epoch ended, with other
 * settings and other stores. Spark resumes from it as from any other epoch.
 *
 * Its state is written and verified before either log has an entry. The entry of the offset log is
 * marked. A marked entry without a commit means that the operation was killed in between, and that
 * no query has run on it. The operation then starts again: without cuts, after that entry was
 * removed; with cuts, after that entry.
 */
private[operations] object OfflineEpoch {

  /**
   * Removes the log entries of a killed operation in a checkpoint without cuts. With cuts, the
   * killed operation may be about to write its cut, which requires these entries, so this epoch
   * follows them.
   */
  def revertIncomplete(target: OfflineTarget, query: StoredQuery): Unit =
    if (target.isNew) {
      if (target.place.logs.offsetLog.getLatest().isDefined)
        target.place.newLogs.offsetLog.purgeAfter(target.last)
    } else if (query.isHalfDone && !target.place.isWithCuts) {
      retired(target).restore()
      val staged =
        new StagedState(target.place.location, OfflinePlace.newId(), target.place.hadoopConf)
      staged.deleteMoved(lastVersion(query))
      staged.delete()
      target.place.logs.offsetLog.purgeAfter(query.begun)
    }

  /** The highest version that the query itself may have written. */
  private def lastVersion(query: StoredQuery): Long = query.begun + 1

  private def spreadIn(query: StoredQuery) = query.operators.filter(_.isSpread).map(_.id)

  private def retired(target: OfflineTarget) =
    new RetiredPartitions(target.place.location, target.last + 1, target.place.hadoopConf)

  /** The offset log entry of an operation whose state is that of a query after an epoch. */
  private def entry(
      target: OfflineTarget,
      query: StoredQuery,
      operation: String,
      settings: Map[String, String]
  ): EpochLogs.Offsets = {
    def mark(epoch: Option[Long], name: String) = epoch.map(name -> _.toString)
    val last = Option.when(query.isBack && !target.isNew)(target.last)
    val unused = Option.when(target.hasUnusedBefore && !target.isNew)(target.epoch - 1)
    val marks = Map(OffsetEntry.Act -> operation) ++
      mark(Some(query.epoch), OffsetEntry.SourceOfAct) ++
      mark(last, OffsetEntry.LastBeforeAct) ++
      mark(unused, OffsetEntry.UnusedBeforeAct)
    // The source epoch of a rollback may itself be an offline epoch.
    EpochLogs.withConf(query.offsets)(_ -- OffsetEntry.ActMarks ++ settings ++ marks)
  }

  /**
   * @param epoch
   *   the epoch whose entry is added
   */
  private def add(target: OfflineTarget, epoch: Long, operation: String)(
      isAdded: => Boolean
  ): Unit =
    if (!added(isAdded)) {
      val reason = s"another writer has added epoch $epoch; is the query running?"
      throw Errors.operationRefused(operation, target.place.location, reason)
    }

  /** Spark's logs throw if another writer adds the entry at the same time. */
  private def added(isAdded: => Boolean): Boolean =
    try isAdded
    catch { case _: ConcurrentModificationException => false }

  /**
   * Called in a new location before anything else is written. A query that is started before the
   * operation is done then stops with an error, and does not start from the beginning.
   */
  def announce(
      target: OfflineTarget,
      query: StoredQuery,
      operation: String,
      settings: Map[String, String]
  ): Unit = add(target, target.epoch, operation) {
    target.place.newLogs.offsetLog.add(target.epoch, entry(target, query, operation, settings))
  }

  /**
   * Adds the entry before the operation's, with the same offsets. Spark lets sources read the range
   * between the last two entries, and some sources refuse offsets that decrease. No query starts on
   * the other entry alone. The entry may exist already, from an incomplete operation.
   */
  def precede(
      target: OfflineTarget,
      query: StoredQuery,
      operation: String,
      settings: Map[String, String]
  ): Unit = {
    val log = (if (target.isNew) target.place.newLogs else target.place.logs).offsetLog
    def add(epoch: Long) = this.add(target, epoch, operation) {
      added(log.add(epoch, entry(target, query, operation, settings))) || log
        .get(epoch)
        .exists(OfflineMarks.isOne)
    }
    // Follows an incomplete operation; a running query would plan the next number.
    if (!target.isNew && !query.isBack) add(target.last + 1)
    add(target.epoch - 1)
  }

  /**
   * Writes the epoch to the logs, after all of its state is written.
   *
   * @param query
   *   the query as it was after the epoch whose state is used
   * @param settings
   *   settings that replace the recorded settings of the query
   */
  def commit(
      target: OfflineTarget,
      query: StoredQuery,
      run: OfflineRun,
      operation: String,
      settings: Map[String, String],
      written: Seq[Written],
      staged: Option[StagedState] = None
  ): Unit = run.writing {
    val OfflineTarget(place, _, epoch, isNew) = target
    val logs = if (isNew) place.newLogs else place.logs
    val offsets = entry(target, query, operation, settings)
    if (!isNew) add(target, epoch, operation)(logs.offsetLog.add(epoch, offsets))
    if (target.hasUnusedBefore) {
      // The query may have planned that epoch: it is running, and must continue after its own
      // epochs.
      try precede(target, query, operation, settings)
      catch {
        case e: CleancutException =>
          if (!isNew && isOwn(target, offsets)) logs.offsetLog.purgeAfter(epoch - 1)
          throw e
      }
    }
    // Another operation that began meanwhile may have committed state that must not be changed.
    if (!isNew) {
      add(target, epoch, operation)(staged.forall(_.exists) && isOwn(target, offsets))
    }
    staged.foreach { state =>
      state.deleteMoved(lastVersion(query))
      state.moveToState(written.size)
    }
    val changed = settings.get(SQLConf.SHUFFLE_PARTITIONS.key).map(_.toInt)
    // A query that has not run was planned from the current description.
    val isMoved = query.location != place.location
    if (isMoved || query.isBack || changed.isDefined) {
      describe(target, query, changed.getOrElse(query.partitions))
    }
    // A cut lists its stores.
    for (partitions <- changed if !isNew && !run.isByCuts)
      retired(target).retire(spreadIn(query), partitions)
    add(target, epoch, operation) {
      (isNew || isOwn(target, offsets)) && logs.commitLog.add(epoch, withIds(query, written))
    }
  }

  /** Whether the offset log still ends with the entry of this operation, uncommitted. */
  private def isOwn(target: OfflineTarget, offsets: EpochLogs.Offsets): Boolean = {
    // Logs keep what they have added, so others are needed to see the files.
    val logs = target.place.logs
    def conf(entry: EpochLogs.Offsets) = EpochLogs.recorded(entry).map(_.conf)
    logs.commitLog.get(target.epoch).isEmpty && logs.offsetLog.getLatest().exists {
      case (epoch, entry) => epoch == target.epoch && conf(entry) == conf(offsets)
    }
  }

  /**
   * Describes the operators for readers of the state; the query itself uses the settings. The first
   * form of a description has no epoch, and is written in a new location only.
   */
  private def describe(target: OfflineTarget, query: StoredQuery, partitions: Int): Unit = {
    val OfflineTarget(place, _, epoch, isNew) = target
    val conf = new SerializableConfiguration(query.access.in(place.hadoopConf))
    def pathOf(schema: String) = {
      val path = NewCheckpoint.schemaBelow(query.location, schema, conf.value)
      if (isNew) NewCheckpoint.pathIn(place, query.location, path) else path
    }
    def write(metadata: OperatorStateMetadata): Unit = OperatorStateMetadataWriter
      .createWriter(
        new Path(place.stateRoot, metadata.operatorInfo.operatorId.toString),
        place.hadoopConf,
        metadata.version,
        Some(epoch)
      )
      .write(metadata)
    val described = DescribedEpoch.of(query.location, query.epoch, conf.value)
    new StateMetadataPartitionReader(query.location, conf, described).allOperatorStateMetadata
      .foreach {
        case v2: OperatorStateMetadataV2 =>
          write(v2.copy(stateStoreInfo = v2.stateStoreInfo.map { store =>
            val paths = store.stateSchemaFilePaths.map(pathOf)
            store.copy(numPartitions = partitions, stateSchemaFilePaths = paths)
          }))
        case v1: OperatorStateMetadataV1 if isNew =>
          write(v1.copy(stateStoreInfo = v1.stateStoreInfo.map(_.copy(numPartitions = partitions))))
        case other if isNew =>
          throw new IllegalStateException(s"operators of version ${other.version}")
        case _ => ()
      }
  }

  private def withIds(query: StoredQuery, written: Seq[Written]): EpochLogs.Commit =
    query.commit.stateUniqueIds.fold(query.commit) { _ =>
      val ids = written.groupBy(_.operator).map { case (operator, all) =>
        operator -> all.groupBy(_.partition).toArray.sortBy(_._1).map {
          _._2.sortBy(_.store).map(_.id.get).toArray
        }
      }
      EpochLogs.withIds(query.commit, ids)
    }
}
