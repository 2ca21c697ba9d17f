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
 * An epoch of a stopped query that takes no input: it ends where the epoch before it ended, with
 * other settings and other stores. Spark goes on behind it as behind any other.
 *
 * Its state is there, and was read again, before either log has an entry. The entry of the offset
 * log is marked, so that whoever finds it without one of the commit log knows that the act was
 * killed between the two, and that no query has run on it. The act begins again then: where there
 * are no cuts, after that entry was taken away; else after it.
 */
private[operations] object OfflineEpoch {

  /**
   * Takes away what a killed act has left in the logs, where there are no cuts. With them it may be
   * about to write its own, which wants these entries: this one then comes behind them.
   */
  def takeBack(target: OfflineTarget, query: StoredQuery): Unit =
    if (target.isNew) {
      if (target.place.logs.offsetLog.getLatest().isDefined)
        target.place.newLogs.offsetLog.purgeAfter(target.last)
    } else if (query.isHalfDone && !target.place.isWithCuts) {
      retired(target).bringBack()
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

  /** The entry of the offset log of an act that has what a query had after an epoch. */
  private def entry(
      target: OfflineTarget,
      query: StoredQuery,
      act: String,
      settings: Map[String, String]
  ): EpochLogs.Offsets = {
    def mark(of: Option[Long], name: String) = of.map(name -> _.toString)
    val last = Option.when(query.isBack && !target.isNew)(target.last)
    val unused = Option.when(target.isBehindUnused && !target.isNew)(target.epoch - 1)
    val marks = Map(OffsetEntry.Act -> act) ++
      mark(Some(query.epoch), OffsetEntry.SourceOfAct) ++
      mark(last, OffsetEntry.LastBeforeAct) ++
      mark(unused, OffsetEntry.UnusedBeforeAct)
    // The epoch that is gone back to may be that of an act.
    EpochLogs.withConf(query.offsets)(_ -- OffsetEntry.ActMarks ++ settings ++ marks)
  }

  /** @param epoch whose entry was to be added */
  private def add(target: OfflineTarget, epoch: Long, act: String)(isAdded: => Boolean): Unit =
    if (!added(isAdded)) {
      val reason = s"somebody else has written epoch $epoch meanwhile; is the query running?"
      throw Errors.operationRefused(act, target.place.location, reason)
    }

  /** Spark's logs throw if another writer adds the entry at the same time. */
  private def added(isAdded: => Boolean): Boolean =
    try isAdded
    catch { case _: ConcurrentModificationException => false }

  /**
   * In a new place, before anything else is there: a query that is started before the act is done
   * stops with an error then, and does not begin anew.
   */
  def announce(
      target: OfflineTarget,
      query: StoredQuery,
      act: String,
      settings: Map[String, String]
  ): Unit = add(target, target.epoch, act) {
    target.place.newLogs.offsetLog.add(target.epoch, entry(target, query, act, settings))
  }

  /**
   * The entry before that of the act, with the same offsets: Spark has sources look at what lies
   * between the last two entries, and some do not take offsets that go back. Nobody starts behind
   * the other entry alone. It may be there already, from an act that was not done.
   */
  def precede(
      target: OfflineTarget,
      query: StoredQuery,
      act: String,
      settings: Map[String, String]
  ): Unit = {
    val log = (if (target.isNew) target.place.newLogs else target.place.logs).offsetLog
    def add(epoch: Long) = this.add(target, epoch, act) {
      added(log.add(epoch, entry(target, query, act, settings))) || log
        .get(epoch)
        .exists(OfflineMarks.isOne)
    }
    // Behind an act that was not done; a query that lives would plan the next number.
    if (!target.isNew && !query.isBack) add(target.last + 1)
    add(target.epoch - 1)
  }

  /**
   * Writes it to the logs, after all of its state is there.
   *
   * @param query
   *   as it was after the epoch whose state it has
   * @param settings
   *   that take the place of those which are recorded for the query
   */
  def commit(
      target: OfflineTarget,
      query: StoredQuery,
      run: OfflineRun,
      act: String,
      settings: Map[String, String],
      written: Seq[Written],
      staged: Option[StagedState] = None
  ): Unit = {
    val OfflineTarget(place, _, epoch, isNew) = target
    val logs = if (isNew) place.newLogs else place.logs
    val offsets = entry(target, query, act, settings)
    if (!isNew) add(target, epoch, act)(logs.offsetLog.add(epoch, offsets))
    if (target.isBehindUnused) {
      // The query may have planned that one: it lives, and is to go on behind its own epochs.
      try precede(target, query, act, settings)
      catch {
        case e: CleancutException =>
          if (!isNew && isOwn(target, offsets)) logs.offsetLog.purgeAfter(epoch - 1)
          throw e
      }
    }
    // Another operation that began meanwhile may have committed state that must not be changed.
    if (!isNew) {
      add(target, epoch, act)(staged.forall(_.isThere) && isOwn(target, offsets))
    }
    staged.foreach { of =>
      of.deleteMoved(lastVersion(query))
      of.moveToState(written.size)
    }
    val changed = settings.get(SQLConf.SHUFFLE_PARTITIONS.key).map(_.toInt)
    // Of a query that has not run, what it was planned from says it already.
    val isMoved = query.location != place.location
    if (isMoved || query.isBack || changed.isDefined) {
      describe(target, query, changed.getOrElse(query.partitions))
    }
    // A cut says itself which stores there are.
    for (partitions <- changed if !isNew && !run.isByCuts)
      retired(target).retire(spreadIn(query), partitions)
    add(target, epoch, act) {
      (isNew || isOwn(target, offsets)) && logs.commitLog.add(epoch, withIds(query, written))
    }
  }

  /** Whether the offset log still ends with the entry of this operation, uncommitted. */
  private def isOwn(target: OfflineTarget, offsets: EpochLogs.Offsets): Boolean = {
    // Logs keep what they have added, so others are needed to see the files.
    val logs = target.place.logs
    def conf(of: EpochLogs.Offsets) = EpochLogs.recorded(of).map(_.conf)
    logs.commitLog.get(target.epoch).isEmpty && logs.offsetLog.getLatest().exists {
      case (epoch, entry) => epoch == target.epoch && conf(entry) == conf(offsets)
    }
  }

  /**
   * For readers of the state; the query itself goes by the settings. The first form of it says
   * nothing of an epoch, and is written in a new place alone.
   */
  private def describe(target: OfflineTarget, query: StoredQuery, partitions: Int): Unit = {
    val OfflineTarget(place, _, epoch, isNew) = target
    val conf = new SerializableConfiguration(query.access.in(place.hadoopConf))
    def pathOf(schema: String) =
      if (isNew) NewCheckpoint.pathIn(place, query.location, schema) else schema
    def write(of: OperatorStateMetadata): Unit = OperatorStateMetadataWriter
      .createWriter(
        new Path(place.stateRoot, of.operatorInfo.operatorId.toString),
        place.hadoopConf,
        of.version,
        Some(epoch)
      )
      .write(of)
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
