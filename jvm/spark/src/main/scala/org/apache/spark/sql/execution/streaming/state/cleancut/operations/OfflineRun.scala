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
 * Under what an act opens stores and writes logs. Where epochs are committed by cuts, it is a run
 * that owns the query, as that of a driver does: whoever has run the query is fenced from then on,
 * tasks report to it, and the entry of the commit log comes behind a cut of its own.
 *
 * @param cuts
 *   its coordinator, where there are cuts
 */
final private[operations] class OfflineRun private (
    session: SparkSession,
    val id: UUID,
    cuts: Option[QueryCoordinator]
) {

  /** Spark's gate knows a run by the group of its jobs. That of the thread is put back. */
  def apply[A](description: String)(act: => A): A = {
    val context = session.sparkContext
    val before = OfflineRun.OfGroups.map(key => key -> context.getLocalProperty(key))
    context.setJobGroup(id.toString, description)
    try act
    finally before.foreach { case (key, value) => context.setLocalProperty(key, value) }
  }

  def isByCuts: Boolean = cuts.isDefined

  /**
   * The epoch is to have these stores, and no others.
   *
   * @param from
   *   where the state comes from
   * @param sinks
   *   the published epochs that count after it
   */
  def replace(
      target: OfflineTarget,
      query: StoredQuery,
      partitions: Option[Int],
      from: OfflinePlace,
      sinks: SinkEpochs
  ): Unit = cuts.fold(if (target.isNew) CarriedRecords.write(target, query, sinks)) { of =>
    val stores = for {
      operator <- query.operators
      partition <- partitions.fold(operator.partitions)(operator.partitionsOf)
      store <- operator.stores
    } yield StoreId(operator.id, partition, store.name)
    val counts = query.operators.map(of => of.id -> of).toMap
    val spread = partitions.map(count => (id: Long) => counts(id).partitionsOf(count).size)
    val inFlight =
      for ((archive, _) <- from.cuts; cut <- query.cutIn(from))
        yield StoredInFlight(archive, cut, spread, OfflineRun.hashOf)
    of.replace(id.toString, target.epoch, stores.toSet, inFlight, sinks)
  }

  /** The epoch's stores are to have these bases, which lead to what lies in other segments. */
  def refer(target: OfflineTarget, bases: Seq[SealedFrame], segments: Set[String]): Unit =
    cuts.foreach(_.refer(id.toString, target.epoch, bases, segments))

  /** What has been [[settle]]d. */
  def settled(target: OfflineTarget): Seq[StoreCut] =
    cuts.toSeq.flatMap(_.settled(id.toString, target.epoch))

  /** All stores are written, and are to be read before the epoch is committed. */
  def settle(target: OfflineTarget): Unit = cuts.foreach(_.settle(id.toString, target.epoch))
}

/** Logs of a query whose epochs are committed by cuts, and by nothing else. */
final private class CutsAlone(logs: SparkLogs) extends SparkLogs {
  override def queryId(): Option[String] = logs.queryId()
  override def offsets(epoch: Long): String = logs.offsets(epoch)
  override def lastPlainCommit(): Option[Long] = None
  override def retention: CutRetention = logs.retention
  override def close(): Unit = logs.close()
}

private[operations] object OfflineRun {

  /** As sums of rows in flight have it. */
  private def hashOf(row: Array[Byte]): Long =
    XXH64.hashUnsafeBytes(row, Platform.BYTE_ARRAY_OFFSET.toLong, row.length, 0L)

  private val OfGroups = Seq(
    SparkContext.SPARK_JOB_GROUP_ID,
    SparkContext.SPARK_JOB_DESCRIPTION,
    SparkContext.SPARK_JOB_INTERRUPT_ON_CANCEL
  )

  /**
   * Ends it in any case.
   *
   * @param isBack
   *   whether it resumes from a cut, whatever the commit log has after it
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED, somebody has committed an epoch meanwhile
   */
  def using[A](target: OfflineTarget, act: String, id: UUID, isBack: Boolean = false)(
      body: OfflineRun => A
  ): A = {
    val OfflineTarget(place, last, _, _) = target
    place.cuts match {
      case None                  => body(new OfflineRun(place.session, id, None))
      case Some((archive, logs)) =>
        // Ownership fences the driver of the query, so a refusal that is known must come before.
        checkLast(archive.cuts.epochs().lastOption.getOrElse(-1L), last, act, place)
        if (isBack) LastOffsets.restore(new Path(place.location), archive, place.files)
        val known = if (isBack) new CutsAlone(logs) else logs
        val cuts = DriverCuts.beginAct(place.location, id.toString, archive, known)
        try {
          checkLast(cuts.begin(id.toString).committed, last, act, place)
          body(new OfflineRun(place.session, id, Some(cuts)))
        } finally DriverCuts.endAct(id.toString)
    }
  }

  private def checkLast(committed: Long, last: Long, act: String, place: OfflinePlace): Unit =
    if (committed != last) {
      val reason = s"epoch $committed has been committed meanwhile; is the query running?"
      throw Errors.operationRefused(act, place.location, reason)
    }
}
