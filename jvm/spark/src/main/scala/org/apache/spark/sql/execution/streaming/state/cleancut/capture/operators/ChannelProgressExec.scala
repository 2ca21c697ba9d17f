package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.WithoutStores
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streaming.StateOperatorProgress

import io.cleancut.base.StoreId
import io.cleancut.coordinator.QueryCoordinator
import io.cleancut.coordinator.state.CutsStatus
import io.cleancut.format.cut.{ChannelCourse, ChannelReport}

/**
 * Represents all captured inputs of a plan towards Spark: requests another epoch while there are
 * in-flight rows, and reports them as the last entry of `stateOperators`. If the cut of its epoch
 * may be written while the next epoch runs, it waits for the cut before the query is idle. Only a
 * stateful operator can do this, so it is one, with a separate ID and without a store. Rows pass
 * through it unchanged.
 *
 * @param isPipelined
 *   whether the cut of its epoch may be written while the next epoch runs
 */
case class ChannelProgressExec(
    stateInfo: Option[StatefulOperatorStateInfo],
    isPipelined: Boolean,
    child: SparkPlan
) extends UnaryExecNode
    with WithoutStores {
  import ChannelProgressExec._

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def shortName: String = ShortName

  override def getStateStoreCheckpointInfo(): Array[StatefulOpStateStoreCheckpointInfo] =
    Array.empty

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = Nil

  /** Spark calls it at each trigger, before it decides whether there is an epoch. */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean = {
    val hasRows = status.exists(_.channels.exists(_.deferred.rows > 0))
    if (isPipelined) cuts.foreach(awaitCut(_, isIdle = !hasRows))
    hasRows
  }

  /**
   * A query that is idle, or about to end, has committed its last epoch, or reports the failure.
   */
  private def awaitCut(cuts: QueryCoordinator, isIdle: Boolean): Unit = {
    val runId = getStateInfo.queryRunId.toString
    cuts.checkWrites(runId)
    if (isIdle && !PipelinedCuts.hasNewInput(runId)) cuts.awaitWrites(runId)
  }

  private def cuts: Option[QueryCoordinator] =
    DriverCuts.of(StoreFiles.checkpointOf(getStateInfo.checkpointLocation).toString)

  /** The status after the last cut, which belongs to this plan once it has run. */
  private def status: Option[CutsStatus] = cuts.map(_.status)

  override def getProgress(): StateOperatorProgress = {
    val known = status
    val reports = known.fold(Seq.empty[ChannelReport])(_.channels)
    val courses = known.fold(Map.empty[StoreId, ChannelCourse])(_.courses)
    val byOperator = reports.groupBy(_.channel.operator).flatMap { case (operator, inputs) =>
      figures(inputs, courses).map { case (figure, number) =>
        s"$figure.operator$operator" -> number
      }
    }
    val whole = Map(
      "partitionsInFlight" -> reports.count(_.deferred.rows > 0).toLong,
      "barrierToCaptureMs" -> courses.values.flatMap(_.barrierToCaptureMs).maxOption.getOrElse(0L)
    )
    new StateOperatorProgress(
      operatorName = ShortName,
      numRowsTotal = reports.map(_.deferred.rows).sum,
      numRowsUpdated = 0L,
      allUpdatesTimeMs = 0L,
      numRowsRemoved = 0L,
      allRemovalsTimeMs = 0L,
      commitTimeMs = 0L,
      memoryUsedBytes = 0L,
      numRowsDroppedByWatermark = 0L,
      numShufflePartitions = getStateInfo.numPartitions.toLong,
      numStateStoreInstances = 0L,
      customMetrics = (byOperator ++ longest(courses) ++ whole).map { case (k, v) =>
        k -> Long.box(v)
      }.asJava
    )
  }

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override protected def withNewChildInternal(newChild: SparkPlan): ChannelProgressExec =
    copy(child = newChild)
}

object ChannelProgressExec {

  /** The figures of the inputs of one operator. */
  private def figures(
      reports: Seq[ChannelReport],
      courses: Map[StoreId, ChannelCourse]
  ): Map[String, Long] = {
    val measured = reports.flatMap(report => courses.get(report.channel))
    val overtaken = reports.map(_.channel).filter(courses.get(_).exists(_.overtakenMs.isDefined))
    Map(
      // The `mode` of the cut as a number, because metrics are numbers.
      "isUnaligned" -> (if (reports.exists(_.deferred.rows > 0)) 1L else 0L),
      "inFlightRows" -> reports.map(_.deferred.rows).sum,
      "inFlightBytes" -> measured.map(_.bytesInFlight).sum,
      "replayedRows" -> measured.map(_.rowsReplayed).sum,
      "overLimitRows" -> measured.map(_.rowsBeyondBound).sum,
      "partitionsOvertaken" -> overtaken.map(_.partition).distinct.size.toLong,
      "alignmentMs" -> ChannelCourse.alignmentMs(measured),
      "barrierToCaptureMs" -> measured.flatMap(_.barrierToCaptureMs).maxOption.getOrElse(0L),
      "captureMs" -> measured.flatMap(_.captureMs).maxOption.getOrElse(0L)
    )
  }

  /**
   * When partitions were overtaken, in milliseconds of their epochs. If there are many, only the
   * latest, because a progress report must not have thousands.
   */
  private def longest(courses: Map[StoreId, ChannelCourse]): Map[String, Long] = {
    val overtaken = for {
      (channel, course) <- courses.toSeq
      ms <- course.overtakenMs
    } yield (channel.operator, channel.partition) -> ms
    val byPartition = overtaken.groupMapReduce(_._1)(_._2)(Math.max)
    byPartition.toSeq
      .sortBy { case (partition, ms) => (-ms, partition) }
      .take(MaxPartitions)
      .map { case ((operator, partition), ms) =>
        s"overtakenMs.operator$operator.partition$partition" -> ms
      }
      .toMap
  }

  private val MaxPartitions = 20

  /** The name in `lastProgress`. */
  val ShortName = "cleancutInFlight"

  /** Far above the operator IDs of Spark, which begin at 0. */
  val OperatorId: Long = 1000000L
}
