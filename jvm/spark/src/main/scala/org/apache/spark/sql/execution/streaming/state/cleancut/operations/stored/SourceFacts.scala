package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging

/**
 * Facts about the source of an operation that its plan reports. They are estimates: an operation
 * neither depends on them nor fails without them.
 *
 * @param stateBytes
 *   bytes of the state, as it is stored; without cuts, with the other versions that are stored
 * @param isStopped
 *   whether the last run of the query has written its end marker; without cuts no run is recorded
 * @param owner
 *   the last run, if it has not: it runs, or it was killed
 * @param cores
 *   cores of the session, which copy rows
 */
final case class SourceFacts(
    stateBytes: Option[Long],
    isStopped: Option[Boolean],
    owner: Option[String],
    cores: Option[Int]
)

object SourceFacts extends Logging {
  val Unknown: SourceFacts = SourceFacts(None, None, None, None)

  private[operations] def of(from: OfflinePlace, query: StoredQuery): SourceFacts =
    try
      from.cuts match {
        case Some((archive, _)) =>
          val cut = query.cut.map(_.whole).orElse(archive.cuts.read(query.epoch))
          val bytes = cut.map(_.stores.flatMap(_.frames).map(_._3.length).sum)
          val owner = archive.owners.running()
          SourceFacts(bytes, Some(owner.isEmpty), owner.map(_.toString), cores(from))
        case None =>
          val state = new Path(from.stateRoot)
          val summary = state.getFileSystem(from.hadoopConf).getContentSummary(state)
          SourceFacts(Some(summary.getLength), None, None, cores(from))
      }
    catch {
      case NonFatal(e) =>
        logDebug(s"The size of ${from.location} is unknown", e)
        Unknown
    }

  private def cores(from: OfflinePlace) = Some(from.session.sparkContext.defaultParallelism)
}
