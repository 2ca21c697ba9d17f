package io.cleancut.cuts

import scala.util.control.NonFatal

import io.cleancut.{Clock, StoreId}
import io.cleancut.channels.ChannelCourse
import io.cleancut.format.Cut
import io.cleancut.history.SlowTally

/**
 * The coordinator of one query, on its driver: takes what tasks report, and turns an epoch into a
 * cut. A run of the query begins with its first report or commit, and takes the ownership then; a
 * run that is not the latest here is not believed any more. A driver has one for each run that goes
 * on, see [[DriverQuery]].
 *
 * All methods may be called from any thread. Those that name a run may do requests.
 *
 * @param host
 *   for the owner's note
 */
final class QueryCuts(archive: CutArchive, logs: SparkLogs, host: String, runtime: CutsRuntime)
    extends QueryRuns(archive, logs, host, runtime)
    with ChannelBarrier
    with EpochGate
    with AutoCloseable {

  def this(archive: CutArchive, logs: SparkLogs, host: String, clock: Clock) =
    this(archive, logs, host, CutsRuntime.onThreads(archive.store, clock))

  /** Keeps the cut of an epoch under a name; see [[CutArchive.pin]]. */
  def pin(name: String, epoch: Long): Unit = archive.pin(name, epoch)

  def unpin(name: String): Boolean = archive.unpin(name)

  /** Of the run that goes on, if it has begun. */
  def lastCut: Option[Cut] = synchronized(current.flatMap(_.ledger.lastCut))

  /** How long a request to its store may take. */
  def requestTimeoutMs: Long = archive.store.requestTimeoutMs

  /** Until a run has been heard of, this asks the store for the last cut. */
  def status: CutsStatus = {
    val stored = if (synchronized(current).isEmpty) archive.last().map(_.head) else None
    statusAfter(stored)
  }

  /** What metrics tell of the run that goes on, without a request; None before it has begun. */
  def figures: Option[QueryFigures] = synchronized(current).map { run =>
    new QueryFigures(statusAfter(None), run.begun.committed, watchedNotes.last)
  }

  private def isCheckpointStored =
    try synchronized(current).forall(isStored)
    catch { case NonFatal(_) => true }

  private def statusAfter(stored: Option[Cut]): CutsStatus =
    synchronized {
      val cut = current.fold(stored)(_.ledger.lastCut)
      val committed = current.map(_.ledger.lastCommitted).orElse(cut.map(_.epoch))
      CutsStatus(
        archive.location,
        current.map(_.id),
        committed.filter(_ >= 0),
        current.map(_.ledger.epoch.progress),
        current.toSeq.flatMap(_.meter.slowest),
        last,
        usage(),
        cut.toSeq.flatMap(_.channels),
        cut.fold(Map.empty[StoreId, ChannelCourse])(_.courses),
        current.fold(Map.empty[Long, String])(_.aligned),
        runtime.watcher.fold(SlowTally.None)(_.slow),
        current.toSeq.flatMap(_.collector.unreadable)
      )
    }

  /** What others have noted who looked at the query. Asks the store. */
  def notes(): Notes = watchedNotes.look()

  /** The same as was seen last; it is looked for again in the background. */
  def lastNotes: Option[Notes] = watchedNotes.last

  /** The run has ended, and nobody waits here any more. */
  override def close(): Unit = {
    isClosed = true
    runtime.packer.close()
    synchronized(current.toSeq.flatMap(_.close())).foreach(_())
    awaitPages()
    runtime.watcher.foreach(_.close(() => isCheckpointStored))
    logs.close()
  }
}
