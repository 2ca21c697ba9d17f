package org.apache.spark.sql.execution.streaming.state.cleancut.history

import java.lang.management.ManagementFactory

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved}

import io.cleancut.history.EpochHealth

/** Health of the driver that may slow down epochs of any query: executor losses and GC pauses. */
private[cleancut] object DriverHealth extends SparkListener {
  private val MaxKept = 64

  // Each with the number of losses before it.
  @volatile private var lost = Vector.empty[(Long, String, String)]
  @volatile private var count = 0L

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = synchronized {
    lost = (lost :+ ((count, event.executorId, event.reason))).takeRight(MaxKept)
    count += 1
  }

  // Beans of concurrent collectors count their work, and not pauses.
  private lazy val collectors = ManagementFactory.getGarbageCollectorMXBeans.asScala.filterNot {
    collector => collector.getName.contains("Cycles") || collector.getName.contains("Concurrent")
  }.toVector

  private def pausedMs: Long =
    collectors.map(collector => Math.max(0L, collector.getCollectionTime)).sum

  /** Returns the changes since its last call; for one query. */
  final class Watch {
    private var seenMs = pausedMs
    private var seen = count

    def sample(): EpochHealth = synchronized {
      val (pausedNow, all) = (pausedMs, lost)
      val recent = all.filter(_._1 >= seen)
      val health = EpochHealth(
        pausedNow - seenMs,
        recent.map { case (_, id, reason) => id -> reason },
        repeatedTasks = 0
      )
      seenMs = pausedNow
      seen = recent.lastOption.fold(seen)(_._1 + 1)
      health
    }
  }
}
