package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{ConcurrentHashMap, Executor, Executors, TimeUnit}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.FrameFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.LocalBases

import io.cleancut.base.{Clock, DaemonThreads}
import io.cleancut.cutstore.usage.Place
import io.cleancut.format.{FrameName, FramePlace}
import io.cleancut.objectstore.ObjectStore

/**
 * Prefetches the bases that the driver assigns to this executor before tasks request them: of
 * stores that will be opened here, and standby copies. One base at a time for all queries, so that
 * requests of tasks have priority.
 */
private[coordination] object BaseFollower extends Logging {
  private val PeriodMs = 1000L

  /** A restarted query continues with existing files. */
  private val PatienceMs = TimeUnit.MINUTES.toMillis(10)

  private val followed = new ConcurrentHashMap[String, Following]
  private lazy val timer =
    Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("cleancut-bases"))

  /** Follows a query while it runs on the driver, with the settings of its last run. */
  def follow(checkpoint: String, to: Following): Unit =
    if (GroupedFrame.here.executor != Place.Driver) {
      val before = followed.get(checkpoint)
      if (before != to && followed.put(checkpoint, to) == null) schedule(checkpoint)
    }

  /** Smaller bases are read completely, and not from the local disk. */
  def isKept(place: FramePlace): Boolean = place.length >= FrameFiles.minOpenedBytes

  private def schedule(checkpoint: String): Unit = {
    timer.schedule[Unit](() => poll(checkpoint), PeriodMs, TimeUnit.MILLISECONDS)
    ()
  }

  private def poll(checkpoint: String): Unit = {
    val following = followed.get(checkpoint)
    val continues =
      try following.poll(checkpoint)
      catch {
        // Includes fatal errors: nothing else schedules the next poll.
        case e: Throwable =>
          logWarning(s"Snapshots of $checkpoint were not fetched; the poll is repeated", e)
          true
      }
    // If the entry was replaced concurrently, the new one continues.
    if (continues || !followed.remove(checkpoint, following)) schedule(checkpoint)
  }

  /**
   * How the bases of one query are fetched.
   *
   * @param replicas
   *   number of executors with a copy of each base, in addition to the executor that uses it
   */
  final case class Following(
      root: ObjectStore,
      bases: LocalBases,
      boundBytes: Long,
      replicas: Int,
      threads: Executor
  ) {
    private def clock = Clock.System
    private var mark = 0
    private var done = Set.empty[FrameName]
    private var heardMs = clock.wallMs()

    /** Polls once; returns whether to poll again. */
    def poll(checkpoint: String): Boolean = {
      val here: Place = GroupedFrame.here
      val question = AskBases(checkpoint, here, replicas, mark)
      CutsClient.ask(question, clock, root.requestTimeoutMs) match {
        case reply: BasesReply =>
          heardMs = clock.wallMs()
          // A base without space is not fetched repeatedly.
          done = done.intersect(reply.bases.map(_._1).toSet)
          for ((name, place) <- reply.bases if !done(name) && isKept(place)) {
            bases.fetch(root, name, place, threads, boundBytes)
            done += name
          }
          mark = reply.mark
        case Noted => heardMs = clock.wallMs()
        case _     => ()
      }
      clock.wallMs() - heardMs < PatienceMs
    }
  }
}
