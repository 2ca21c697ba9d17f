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
 * Fetches to this executor the bases that its driver wants here before a task asks for them: of
 * stores that will be opened here, and standby copies of such as are open elsewhere. One base after
 * the other, for all queries, so that what tasks wait for goes before it.
 */
private[coordination] object BaseFollower extends Logging {
  private val PeriodMs = 1000L

  /** A query that is started again goes on with what is here. */
  private val PatienceMs = TimeUnit.MINUTES.toMillis(10)

  private val followed = new ConcurrentHashMap[String, Following]
  private lazy val timer =
    Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("cleancut-bases"))

  /** Follows a query as long as it runs on the driver, with the settings of its last run. */
  def follow(checkpoint: String, to: Following): Unit =
    if (GroupedFrame.here.executor != Place.Driver) {
      val before = followed.get(checkpoint)
      if (before != to && followed.put(checkpoint, to) == null) again(checkpoint)
    }

  private def again(checkpoint: String): Unit = {
    timer.schedule[Unit](() => look(checkpoint), PeriodMs, TimeUnit.MILLISECONDS)
    ()
  }

  private def look(checkpoint: String): Unit = {
    val following = followed.get(checkpoint)
    val goesOn =
      try following.look(checkpoint)
      catch {
        // Also a fatal error: nothing else schedules the next poll.
        case e: Throwable =>
          logWarning(s"Snapshots of $checkpoint were not fetched; the poll is repeated", e)
          true
      }
    // Who follows it meanwhile does so with what has taken this one's place.
    if (goesOn || !followed.remove(checkpoint, following)) again(checkpoint)
  }

  /**
   * How the bases of one query are fetched.
   *
   * @param replicas
   *   how many executors are to have a copy of each, beside that which works on it
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

    /** Whether to look again. */
    def look(checkpoint: String): Boolean = {
      val here: Place = GroupedFrame.here
      val question = AskBases(checkpoint, here, replicas, mark)
      CutsClient.ask(question, clock, root.requestTimeoutMs) match {
        case reply: BasesReply =>
          heardMs = clock.wallMs()
          // What had no room is not fetched again and again.
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

    /** A smaller one is read as a whole, and not from here. */
    private def isKept(place: FramePlace) = place.length >= FrameFiles.minOpenedBytes
  }
}
