package io.cleancut.cuts

import io.cleancut.{Clock, StoreId}
import io.cleancut.channels.ChannelCourse

/**
 * The coordinator of one query, on its driver: takes what tasks report, and turns an epoch into a
 * cut. A run of the query begins with its first report or commit, and takes the ownership then; a
 * run that is not the latest here is not believed any more.
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

  def status: CutsStatus = synchronized {
    CutsStatus(
      archive.location,
      current.map(_.id),
      current.map(_.ledger.lastCommitted).filter(_ >= 0),
      current.map(_.ledger.epoch.progress),
      current.toSeq.flatMap(_.meter.slowest),
      last,
      usage(),
      current.toSeq.flatMap(_.ledger.lastCut).flatMap(_.channels),
      current.flatMap(_.ledger.lastCut).fold(Map.empty[StoreId, ChannelCourse])(_.courses),
      current.fold(Map.empty[Long, String])(_.aligned)
    )
  }

  override def close(): Unit = runtime.packer.close()
}
