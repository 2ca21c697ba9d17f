package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import scala.util.Try

import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.streaming.runtime.{
  FileStreamSource,
  MicroBatchExecution,
  MicroBatchExecutionContext,
  StreamExecution
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{RealTime, RunningQueries}
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.conf.{Keys, Settings}

/**
 * Decides whether epochs of a query may begin while the cut of the epoch before is being written
 * (rules Q1 to Q3).
 */
private[operators] object PipelinedCuts {

  /** The reason why they may not; None if they may. */
  def refusal(
      runId: String,
      isInBucket: Boolean,
      settings: Settings,
      conf: SQLConf
  ): Option[String] =
    if (settings.pipelinedCuts.contains(false)) Some(s"${Keys.PipelinedCuts.name} is false")
    else if (settings.pipelinedCuts.isEmpty && !isInBucket)
      Some(s"${Keys.PipelinedCuts.name} is auto, and the checkpoint is not in an object store")
    // The query would not know that its last cut has failed.
    else if (!conf.streamingNoDataMicroBatchesEnabled)
      Some(s"${SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED.key} is false")
    // Spark has deleted the entry before that of the epoch which a restart repeats.
    else if (conf.minBatchesToRetain < 2) Some(s"${SQLConf.MIN_BATCHES_TO_RETAIN.key} is 1")
    else
      RunningQueries.byRun(runId) match {
        case Some(query) if RealTime.is(query.trigger) => Some("it runs in real-time mode")
        case Some(query) if query.getClass == classOf[MicroBatchExecution] =>
          sourcesOf(query).flatMap(reaction(_)).headOption
        case _ => Some("its epochs are not planned by Spark's MicroBatchExecution")
      }

  // Protected in Scala and public in the class file. It is looked up early, before it is required.
  private val sourcesMethod = classOf[StreamExecution].getMethod("sources")

  private def sourcesOf(query: StreamExecution): Seq[SparkDataStream] =
    sourcesMethod.invoke(query).asInstanceOf[Seq[SparkDataStream]]

  /**
   * Why a source may react to `commit`, which Spark calls for an epoch that has no cut yet; None if
   * the source does nothing.
   */
  private def reaction(source: SparkDataStream): Option[String] = source match {
    case files: FileStreamSource =>
      Option.when(!keepsFiles(files))("a file source cleans up files of completed epochs")
    case other =>
      val name = other.getClass.getName
      val isKnown = name.startsWith("org.apache.spark.sql.") && Idle(name.split('.').last)
      Option.unless(isKnown)(s"the source $name may react to the commit of an epoch")
  }

  private def keepsFiles(source: FileStreamSource): Boolean = Try {
    val cleaner = classOf[FileStreamSource].getDeclaredField("sourceCleaner")
    cleaner.setAccessible(true)
    cleaner.get(source) == None
  }.getOrElse(false)

  private val Idle = Set(
    "KafkaMicroBatchStream",
    "KafkaSource",
    "RatePerMicroBatchStream",
    "RateStreamMicroBatchStream"
  )

  /** Whether a source has rows that no epoch has processed; called while Spark plans an epoch. */
  def hasNewInput(runId: String): Boolean =
    RunningQueries.byRun(runId).map(_.getLatestExecutionContext()).exists {
      case context: MicroBatchExecutionContext =>
        context.endOffsets.exists { case (source, offset) =>
          !context.startOffsets.get(source).contains(offset)
        }
      case _ => false
    }
}
