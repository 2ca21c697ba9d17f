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
import io.cleancut.coordinator.state.CutsStatus
import io.cleancut.format.cut.{ChannelCourse, ChannelReport}

/**
 * Speaks to Spark for all channels of a plan: asks for another epoch while rows are in flight, and
 * reports them as the last entry of `stateOperators`. Only a stateful operator can do either, so it
 * is one, with an id of its own, and without a store. Rows go through it untouched.
 */
case class ChannelProgressExec(
    stateInfo: Option[StatefulOperatorStateInfo],
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

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    status.exists(_.channels.exists(_.deferred.rows > 0))

  /** Of the last cut, which is that of this plan once it has run. */
  private def status: Option[CutsStatus] = {
    val checkpoint = StoreFiles.checkpointOf(getStateInfo.checkpointLocation).toString
    DriverCuts.of(checkpoint).map(_.status)
  }

  override def getProgress(): StateOperatorProgress = {
    val known = status
    val found = known.fold(Seq.empty[ChannelReport])(_.channels)
    val courses = known.fold(Map.empty[StoreId, ChannelCourse])(_.courses)
    val byOperator = found.groupBy(_.channel.operator).flatMap { case (operator, of) =>
      figures(of, courses).map { case (figure, number) => s"$figure.operator$operator" -> number }
    }
    val whole = Map(
      "partitionsInFlight" -> found.count(_.deferred.rows > 0).toLong,
      "barrierToCaptureMs" -> courses.values.flatMap(_.barrierToCaptureMs).maxOption.getOrElse(0L)
    )
    new StateOperatorProgress(
      operatorName = ShortName,
      numRowsTotal = found.map(_.deferred.rows).sum,
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

  /** Of the channels of one operator. */
  private def figures(
      of: Seq[ChannelReport],
      courses: Map[StoreId, ChannelCourse]
  ): Map[String, Long] = {
    val measured = of.flatMap(report => courses.get(report.channel))
    val overtaken = of.map(_.channel).filter(courses.get(_).exists(_.overtakenMs.isDefined))
    Map(
      // As `mode` of the cut, for metrics are numbers.
      "isUnaligned" -> (if (of.exists(_.deferred.rows > 0)) 1L else 0L),
      "inFlightRows" -> of.map(_.deferred.rows).sum,
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
   * When partitions were overtaken, in milliseconds of their epochs; of many those that were last,
   * since a progress report is no place for thousands.
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

  /** As `lastProgress` names it. */
  val ShortName = "cleancutInFlight"

  /** Far above those that Spark counts from 0. */
  val OperatorId: Long = 1000000L
}
