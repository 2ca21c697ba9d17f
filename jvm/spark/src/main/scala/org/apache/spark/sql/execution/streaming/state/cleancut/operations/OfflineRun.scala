package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.LastOffsets
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflinePlace,
  OfflineTarget,
  StoredQuery
}
import org.apache.spark.unsafe.Platform

import io.cleancut.base.StoreId
import io.cleancut.coordinator.{QueryCoordinator, SparkLogs, StoredInFlight}
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.error.Errors
import io.cleancut.format.StoreCut
import io.cleancut.format.cut.{SealedFrame, SinkEpochs}

/**
 * The run under which an operation opens stores and writes logs. If epochs are committed by cuts,
 * the operation is a run that owns the query, as the run of a driver does: an earlier driver is
 * fenced, tasks report to this run, and its cut precedes the entry of the commit log.
 *
 * @param cuts
 *   its coordinator, if there are cuts
 */
final private[operations] class OfflineRun private (
    session: SparkSession,
    val id: UUID,
    cuts: Option[QueryCoordinator]
) {

  /**
   * Runs an action under the job group by which the commit recognizes the run. Restores the
   * thread's job group afterwards.
   */
  def apply[A](description: String)(action: => A): A = {
    val context = session.sparkContext
    val before = OfflineRun.OfGroups.map(key => key -> context.getLocalProperty(key))
    context.setJobGroup(id.toString, description)
    try action
    finally before.foreach { case (key, value) => context.setLocalProperty(key, value) }
  }

  def isByCuts: Boolean = cuts.isDefined

  /**
   * Declares that the epoch has exactly these stores.
   *
   * @param from
   *   location of the source state
   * @param sinks
   *   published epochs that count after the epoch
   */
  def replace(
      target: OfflineTarget,
      query: StoredQuery,
      partitions: Option[Int],
      from: OfflinePlace,
      sinks: SinkEpochs
  ): Unit = cuts.fold(if (target.isNew) CarriedRecords.write(target, query, sinks)) { coordinator =>
    val stores = for {
      operator <- query.operators
      partition <- partitions.fold(operator.partitions)(operator.partitionsOf)
      store <- operator.stores
    } yield StoreId(operator.id, partition, store.name)
    val counts = query.operators.map(operator => operator.id -> operator).toMap
    val spread = partitions.map(count => (id: Long) => counts(id).partitionsOf(count).size)
    val inFlight =
      for ((archive, _) <- from.cuts; cut <- query.cutIn(from))
        yield StoredInFlight(archive, cut, spread, OfflineRun.hashOf)
    coordinator.replace(id.toString, target.epoch, stores.toSet, inFlight, sinks)
  }

  /** Adds bases to the stores of the epoch, which reference other segments. */
  def refer(target: OfflineTarget, bases: Seq[SealedFrame], segments: Set[String]): Unit =
    cuts.foreach(_.refer(id.toString, target.epoch, bases, segments))

  /** The chains that [[settle]] has made durable. */
  def settled(target: OfflineTarget): Seq[StoreCut] =
    cuts.toSeq.flatMap(_.settled(id.toString, target.epoch))

  /** Writes the entries and the cut of the epoch. */
  def writing[A](write: => A): A = cuts.fold(write)(_.writing(id.toString)(write))

  /** Makes all stores durable, so that they can be read before the epoch is committed. */
  def settle(target: OfflineTarget): Unit = cuts.foreach(_.settle(id.toString, target.epoch))
}

/** Logs of a query whose epochs are committed by cuts only. */
final private class CutsOnlyLogs(logs: SparkLogs) extends SparkLogs {
  override def queryId(): Option[String] = logs.queryId()
  override def offsets(epoch: Long): String = logs.offsets(epoch)
  override def lastPlainCommit(): Option[Long] = None
  override def retention: CutRetention = logs.retention
  override def close(): Unit = logs.close()
}

private[operations] object OfflineRun {

  /** Hash of a row, as in the digests of in-flight rows. */
  private def hashOf(row: Array[Byte]): Long =
    XXH64.hashUnsafeBytes(row, Platform.BYTE_ARRAY_OFFSET.toLong, row.length, 0L)

  private val OfGroups = Seq(
    SparkContext.SPARK_JOB_GROUP_ID,
    SparkContext.SPARK_JOB_DESCRIPTION,
    SparkContext.SPARK_JOB_INTERRUPT_ON_CANCEL
  )

  /**
   * Runs an action and always ends the run.
   *
   * @param isBack
   *   whether it resumes from a cut, regardless of later entries in the commit log
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if another writer has committed an epoch meanwhile
   */
  def using[A](target: OfflineTarget, operation: String, id: UUID, isBack: Boolean = false)(
      body: OfflineRun => A
  ): A = {
    val OfflineTarget(place, last, _, _) = target
    place.cuts match {
      case None                  => body(new OfflineRun(place.session, id, None))
      case Some((archive, logs)) =>
        // Ownership fences the driver of the query, so a refusal that is known must come before.
        checkLast(archive.cuts.epochs().lastOption.getOrElse(-1L), last, operation, place)
        if (isBack) LastOffsets.restore(new Path(place.location), archive, place.files)
        val known = if (isBack) new CutsOnlyLogs(logs) else logs
        val cuts = DriverCuts.beginOperation(place.location, id.toString, archive, known)
        try {
          checkLast(cuts.begin(id.toString).committed, last, operation, place)
          body(new OfflineRun(place.session, id, Some(cuts)))
        } finally DriverCuts.endOperation(id.toString)
    }
  }

  /**
   * Runs an action as a running query, which keeps its ownership. After a failure, the next epoch
   * is again one of the query; the caller ensures that its offset log has no entry of it.
   *
   * @param id
   *   the run of the query, which begins no epoch meanwhile
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if another epoch was committed meanwhile;
   *   CLEANCUT_COORDINATOR_MISSING if the run has ended
   */
  def ofQuery[A](target: OfflineTarget, operation: String, id: UUID)(body: OfflineRun => A): A = {
    val OfflineTarget(place, last, _, _) = target
    val cuts = DriverCuts
      .of(place.location, id.toString)
      .getOrElse(throw Errors.coordinatorMissing(place.location))
    checkLast(cuts.status.committed.getOrElse(-1L), last, operation, place)
    cuts.checkOwner(id.toString)
    try body(new OfflineRun(place.session, id, Some(cuts)))
    catch {
      case e: Throwable =>
        cuts.cancel(id.toString)
        throw e
    }
  }

  private def checkLast(committed: Long, last: Long, operation: String, place: OfflinePlace): Unit =
    if (committed != last) {
      val reason = s"epoch $committed has been committed meanwhile; is the query running?"
      throw Errors.operationRefused(operation, place.location, reason)
    }
}
