package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.StoppedQueryCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.{
  DriverCuts,
  SparkCommitter
}

import io.cleancut.base.{Clock, ProcessWatch}
import io.cleancut.cutstore.{CutArchive, Owner}
import io.cleancut.error.Errors

/**
 * Waits until a query has no driver, and keeps its snapshots on the disks of the executors
 * meanwhile. Its only requests while the driver runs are, every ten seconds, the names of owners
 * and the last cut. For one thread at a time.
 *
 * @param location
 *   as Spark resolves it
 * @param silenceMs
 *   time without a new cut after which the driver counts as dead; 0 for no limit
 */
final class Standby(session: SparkSession, location: String, silenceMs: Long)
    extends AutoCloseable {
  import Standby._

  private val archive: CutArchive = StoppedQueryCuts
    .parts(location, session.sessionState.newHadoopConf())
    .getOrElse(throw Errors.coordinatorMissing(location))
    ._1
  private val snapshots = new SnapshotPrefetch(session, location, archive)
  private var owner = Option.empty[Owner]
  private var driver = ProcessWatch.Unknown
  private var nextLookNs = clock.monotonicNs()
  private var epoch = Option.empty[Long]
  private var epochNs = clock.monotonicNs()
  DriverCuts.parked.setStandby(location, isStandby = true)

  /**
   * Whether the query has no driver: its last run has ended, or the driver has died.
   *
   * @param waitMs
   *   how long to wait for that
   */
  def isGone(waitMs: Long): Boolean = {
    if (clock.monotonicNs() >= nextLookNs) {
      look()
      snapshots.run(epoch)
    }
    val endNs = clock.monotonicNs() + TimeUnit.MILLISECONDS.toNanos(waitMs)
    if (owner.isEmpty || isSilent) true
    else if (driver.isGone(waitMs)) isStillGone
    else {
      // A driver that cannot be watched is reported at once.
      clock.sleep(Math.max(endNs - clock.monotonicNs(), 0L), TimeUnit.NANOSECONDS)
      false
    }
  }

  override def close(): Unit = {
    DriverCuts.parked.setStandby(location, isStandby = false)
    driver.close()
  }

  /** Another run may have taken the query from the one that is gone. */
  private def isStillGone: Boolean = {
    val gone = owner
    lookAtOwner()
    owner.isEmpty || owner == gone
  }

  private def lookAtOwner(): Unit = {
    val running = archive.owners.running()
    if (running != owner) {
      driver.close()
      owner = running
      driver = running.fold(ProcessWatch.Unknown)(SparkCommitter.watch)
    }
  }

  private def look(): Unit = {
    lookAtOwner()
    val last = archive.cuts.epochs().lastOption
    if (last != epoch) {
      epoch = last
      epochNs = clock.monotonicNs()
    }
    nextLookNs = clock.monotonicNs() + TimeUnit.MILLISECONDS.toNanos(lookMs)
  }

  private def lookMs: Long = if (silenceMs > 0) Math.min(silenceMs / 2, LookMs) else LookMs

  private def isSilent: Boolean =
    silenceMs > 0 && clock.monotonicNs() - epochNs > TimeUnit.MILLISECONDS.toNanos(silenceMs)
}

private object Standby {
  private val LookMs = 10000L
  private val clock = Clock.System
}
