package org.apache.spark.sql.execution.streaming.state.cleancut.history

import java.lang.management.ManagementFactory

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved}

import io.cleancut.history.EpochWeather

/** What a driver lives through that epochs may be slow for, whatever query they are of. */
private[cleancut] object DriverWeather extends SparkListener {
  private val MaxKept = 64

  // With how many there have been before each.
  @volatile private var lost = Vector.empty[(Long, String, String)]
  @volatile private var count = 0L

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = synchronized {
    lost = (lost :+ ((count, event.executorId, event.reason))).takeRight(MaxKept)
    count += 1
  }

  // Beans of collectors that work beside the program count what they take, and not what they stop.
  private lazy val collectors = ManagementFactory.getGarbageCollectorMXBeans.asScala.filterNot {
    of => of.getName.contains("Cycles") || of.getName.contains("Concurrent")
  }.toVector

  private def pausedMs: Long = collectors.map(of => Math.max(0L, of.getCollectionTime)).sum

  /** What is new since this was asked last; for one query. */
  final class Watch {
    private var seenMs = pausedMs
    private var seen = count

    def look(): EpochWeather = synchronized {
      val (pausedNow, all) = (pausedMs, lost)
      val found = all.filter(_._1 >= seen)
      val weather = EpochWeather(
        pausedNow - seenMs,
        found.map { case (_, id, reason) => id -> reason },
        repeatedTasks = 0
      )
      seenMs = pausedNow
      seen = found.lastOption.fold(seen)(_._1 + 1)
      weather
    }
  }
}
