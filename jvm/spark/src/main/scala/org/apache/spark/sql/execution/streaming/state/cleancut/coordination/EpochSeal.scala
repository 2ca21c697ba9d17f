package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.RootRecords
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries

import io.cleancut.base.Recent
import io.cleancut.coordinator.QueryCoordinator
import io.cleancut.error.Errors
import io.cleancut.format.cut.{Lineage, SinkEpochs, StoredSinkEpochs}
import io.cleancut.protocol.OffsetEntry

/** The epochs of the queries that run on this driver. */
object EpochSeal {

  /**
   * Limit of the gap between two epochs of a query, whose numbers operations have used or skipped.
   */
  private val MaxGap = 1000L

  /** Limit of runs whose published epochs are in memory. */
  private val MaxRecords = 100

  /**
   * Runs the tasks of an epoch, persists the rows of its batch, and seals it.
   *
   * @param batch
   *   the argument of `foreachBatch`
   * @return
   *   the persisted rows: the batch itself if Spark can persist it
   */
  def run[A](batch: Dataset[A], epoch: Long): Dataset[A] = {
    val rows = compute(batch, epoch)
    persisted(rows)(close(batch, epoch, None))
  }

  /** The first half of [[run]]: runs the tasks and persists the rows without sealing. */
  def compute[A](batch: Dataset[A], epoch: Long): Dataset[A] = {
    val rows = keepable(batch)
    declare(batch, epoch)
    rows.persist()
    // Spark persists complete rows, even if a count reads none of their columns.
    persisted(rows) {
      rows.count()
      awaitWrites(batch, epoch)
    }
  }

  /**
   * Declares that the epoch will be sealed, so that its tasks need not wait for the object store.
   * The sink may stage rows in these tasks, so the epoch before is committed when it returns.
   */
  def hold(batch: Dataset[_], epoch: Long): Unit = {
    declare(batch, epoch)
    awaitWrites(batch, epoch)
  }

  private def declare(batch: Dataset[_], epoch: Long): Unit =
    of(batch, epoch).foreach { case (cuts, runId) => cuts.hold(runId, epoch) }

  /** Returns when the epoch before is committed, and the entry of this one exists. */
  private def awaitWrites(batch: Dataset[_], epoch: Long): Unit =
    of(batch, epoch).foreach { case (cuts, runId) => cuts.awaitWrites(runId) }

  /** The rows, which stay persisted unless the step fails. */
  private def persisted[A](rows: Dataset[A])(step: => Any): Dataset[A] = {
    try step
    catch {
      case e: Throwable =>
        rows.unpersist()
        throw e
    }
    rows
  }

  /**
   * The second half of [[run]].
   *
   * @param output
   *   the sink's description of the rows, if it has written them in between
   */
  def close(batch: Dataset[_], epoch: Long, output: Option[String]): Unit =
    of(batch, epoch).foreach { case (cuts, runId) => cuts.seal(runId, epoch, output) }

  /** The argument of [[close]] in an earlier run, if it has sealed the epoch. */
  def sealedOutput(batch: Dataset[_], epoch: Long): Option[String] =
    of(batch, epoch).flatMap { case (cuts, runId) => cuts.sealedOutput(runId, epoch) }

  /**
   * Finishes the epoch from the seal of an earlier run, if there is one; its rows are discarded.
   */
  def finish(batch: Dataset[_], epoch: Long): Boolean =
    of(batch, epoch).exists { case (cuts, runId) => cuts.finish(runId, epoch) } && {
      // The tasks take over the sealed versions, and Spark receives versions only from its tasks.
      batch.count()
      true
    }

  /** The published epochs of the query's sinks before this epoch that count. */
  def sinks(batch: Dataset[_], epoch: Long): SinkEpochs = of(batch, epoch) match {
    case Some((cuts, runId)) => cuts.sinks(runId, epoch)
    case None                => recorded(running(batch, epoch), epoch)
  }

  /** Records that sinks, by the keys of their ledgers, have published the epoch. */
  def published(batch: Dataset[_], epoch: Long, sinks: Set[String]): Unit =
    of(batch, epoch) match {
      case Some((cuts, runId)) => cuts.published(runId, epoch, sinks)
      case None                =>
        val query = running(batch, epoch)
        val record = StoredSinkEpochs(epoch, recorded(query, epoch).published(sinks, epoch))
        recordsOf(query).write(record)
        records.synchronized(records.put(query.runId, record))
        ()
    }

  private val records = new Recent[UUID, StoredSinkEpochs](MaxRecords)

  private def recorded(query: StreamExecution, epoch: Long): SinkEpochs = {
    val known = records.synchronized(Option(records.get(query.runId)))
    known.orElse(recordsOf(query).sinks()).fold(SinkEpochs.Empty) { record =>
      record.sinks.after(operations(query, Math.max(record.until + 1, epoch - MaxGap) until epoch))
    }
  }

  /** The checkpoints that the query's checkpoint continues. */
  def lineage(batch: Dataset[_], epoch: Long): Lineage = of(batch, epoch) match {
    case Some((cuts, _)) => cuts.lineage
    case None            =>
      val query = running(batch, epoch)
      lineages.synchronized {
        lineages.computeIfAbsent(query.runId, _ => recordsOf(query).lineage())
      }
  }

  private val lineages = new Recent[UUID, Lineage](MaxRecords)

  private def recordsOf(query: StreamExecution): RootRecords = {
    val checkpoint = new Path(query.resolvedCheckpointRoot)
    val conf = query.sparkSession.sessionState.newHadoopConf()
    new RootRecords(checkpoint, CheckpointFileManager.create(checkpoint, conf))
  }

  /** The query of a batch, and the time at which Spark selected the input of the epoch. */
  def planned(batch: Dataset[_], epoch: Long): (StreamExecution, Long) = {
    val query = running(batch, epoch)
    val entry = query.offsetLog.offsetSeqMetadataForBatchId(epoch)
    query -> entry.getOrElse(throw Errors.sealBatchInvalid(epoch)).batchTimestampMs
  }

  /**
   * The operations on the checkpoint whose numbers are between two epochs, including incomplete
   * ones, with the epochs whose state they have.
   */
  def operations(batch: Dataset[_], after: Long, epoch: Long): Seq[(Long, Long)] = {
    // Spark retains entries of 100 epochs; usually there is no number in between.
    val first = Math.max(Math.max(after + 1, epoch - MaxGap), 0L)
    operations(running(batch, epoch), first until epoch)
  }

  /** The operations among the given epochs of a query, by its offset log. */
  def operations(query: StreamExecution, numbers: Seq[Long]): Seq[(Long, Long)] = for {
    number <- numbers
    entry <- query.offsetLog.offsetSeqMetadataForBatchId(number)
    if entry.conf.contains(OffsetEntry.Act)
    source <- entry.conf.get(OffsetEntry.SourceOfAct)
  } yield number -> source.toLong

  private def running(batch: Dataset[_], epoch: Long): StreamExecution =
    queryOf(batch).getOrElse(throw Errors.sealBatchInvalid(epoch))

  /** None if each commit of a store is durable when it returns. */
  private def of(batch: Dataset[_], epoch: Long): Option[(QueryCoordinator, String)] = {
    val query = running(batch, epoch)
    val runId = query.runId.toString
    DriverCuts.of(query.resolvedCheckpointRoot, runId).map(_ -> runId)
  }

  /**
   * The same rows in the same partitions, in a form that Spark can persist.
   *
   * The batch of an aggregation that Spark sorts declares an ordering by columns that it does not
   * have. Spark persists such rows, and then fails to read them with `key not found`. Coalescing to
   * the same number of partitions removes the ordering.
   */
  private def keepable[A](batch: Dataset[A]): Dataset[A] = batch match {
    case rows: ClassicDataset[A] =>
      // Planned separately: the batch's plan must be created after `persist`, to use the persisted
      // rows.
      val planned = rows.sparkSession.sessionState.executePlan(rows.queryExecution.analyzed)
      val plan = planned.optimizedPlan
      val ordering = AttributeSet(plan.outputOrdering.flatMap(_.references))
      if (ordering.subsetOf(plan.outputSet)) batch
      else batch.coalesce(Math.max(planned.toRdd.getNumPartitions, 1))
    case _ => batch
  }

  private def queryOf(batch: Dataset[_]): Option[StreamExecution] = batch.sparkSession match {
    case session: SparkSession => RunningQueries.bySession(session)
    case _                     => None
  }
}
