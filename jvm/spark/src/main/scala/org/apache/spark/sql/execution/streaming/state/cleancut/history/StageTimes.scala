package org.apache.spark.sql.execution.streaming.state.cleancut.history

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.collection.mutable

import org.apache.spark.scheduler._

import io.cleancut.history.CompletedStage

/**
 * The completed stages of queries whose epochs are recorded. Thread-safe; limited for each query.
 */
private[cleancut] object StageTimes extends SparkListener {
  // Spark's local properties, which are the same in all supported versions.
  private val QueryIdKey = "sql.streaming.queryId"
  private val BatchIdKey = "streaming.sql.batchId"
  private val MaxStages = 256
  private val PatienceMs = 2000L

  final private case class Epoch(queryId: String, batchId: Long)

  // All guarded by this.
  private val running = mutable.Map.empty[Int, Epoch]
  private val recordings = mutable.Map.empty[String, Recording]

  /** Starts to record the stages of a query, whose next run replaces the recording. */
  def begin(queryId: String): Recording = synchronized {
    val recording = new Recording(queryId)
    recordings(queryId) = recording
    recording
  }

  /** The completed stages of one run. */
  final class Recording(queryId: String) {
    // Guarded by the listener.
    private[StageTimes] val stages = mutable.Queue.empty[(Long, CompletedStage)]

    /**
     * The stages of an epoch, once the listener has received all events before this call; waits for
     * them. Stages of earlier epochs are forgotten.
     *
     * @param post
     *   posts an event to the listener after all earlier events
     */
    def take(batchId: Long, post: SparkListenerEvent => Unit): Seq[CompletedStage] = {
      val request = new StagesRequested
      post(request)
      request.received.await(PatienceMs, TimeUnit.MILLISECONDS)
      StageTimes.synchronized {
        val ofEpoch = stages.collect { case (`batchId`, stage) => stage }.toVector
        stages.filterInPlace(_._1 > batchId)
        ofEpoch
      }
    }

    def end(): Unit = StageTimes.synchronized {
      if (recordings.get(queryId).exists(_ eq this)) recordings -= queryId
      ()
    }
  }

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit =
    for {
      properties <- Option(event.properties)
      queryId <- Option(properties.getProperty(QueryIdKey))
      batchId <- Option(properties.getProperty(BatchIdKey)).flatMap(_.toLongOption)
    } synchronized {
      if (recordings.contains(queryId)) running(event.stageInfo.stageId) = Epoch(queryId, batchId)
    }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = synchronized {
    val info = event.stageInfo
    for {
      Epoch(queryId, batchId) <- running.remove(info.stageId)
      stages <- recordings.get(queryId).map(_.stages)
      submittedMs <- info.submissionTime
      completedMs <- info.completionTime
    } {
      val stage =
        CompletedStage(info.stageId, operators(info), info.numTasks, submittedMs, completedMs)
      stages += batchId -> stage
      if (stages.size > MaxStages) stages.dequeue()
    }
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case request: StagesRequested => request.received.countDown()
    case _                        => ()
  }

  /** The names of Spark's plan, from the source to the sink. */
  private def operators(info: StageInfo): Seq[String] =
    info.rddInfos.sortBy(_.id).flatMap(_.scope).map(_.name).distinct.toSeq

  /** A marker between the events of two epochs. Not part of an event log. */
  final private class StagesRequested extends SparkListenerEvent {
    val received = new CountDownLatch(1)
    override protected[spark] def logEvent: Boolean = false
  }
}
