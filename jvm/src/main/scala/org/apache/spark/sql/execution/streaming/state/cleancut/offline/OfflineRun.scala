package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import java.util.UUID

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.cuts.DriverCuts

import io.cleancut.StoreId
import io.cleancut.cuts.QueryCuts
import io.cleancut.error.Errors
import io.cleancut.files.CutsAtRest

/**
 * Under what an act opens stores and writes logs. Where epochs are committed by cuts, it is a run
 * that owns the query, as that of a driver does: whoever has run the query is fenced from then on,
 * tasks report to it, and the entry of the commit log comes behind a cut of its own.
 *
 * @param cuts
 *   its coordinator, where there are cuts
 */
final private[offline] class OfflineRun private (
    session: SparkSession,
    val id: UUID,
    cuts: Option[QueryCuts]
) {

  /** Spark's gate knows a run by the group of its jobs. */
  def apply[A](description: String)(act: => A): A = {
    session.sparkContext.setJobGroup(id.toString, description)
    try act
    finally session.sparkContext.clearJobGroup()
  }

  def isByCuts: Boolean = cuts.isDefined

  /** The epoch is to have these stores, and no others. */
  def replace(query: StoredQuery, partitions: Option[Int]): Unit = cuts.foreach { of =>
    val stores = for {
      operator <- query.operators
      partition <- partitions.fold(operator.partitions)(operator.partitionsOf)
      store <- operator.stores
    } yield StoreId(operator.id, partition, store.name)
    of.replace(id.toString, query.next, stores.toSet, query.cut.map(_.whole))
  }

  /** All stores are written, and are to be read before the epoch is committed. */
  def settle(query: StoredQuery): Unit = cuts.foreach(_.settle(id.toString, query.next))
}

private[offline] object OfflineRun {

  /**
   * Ends it in any case.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OFFLINE_REFUSED, rows are in flight, or somebody has committed an epoch meanwhile
   */
  def using[A](session: SparkSession, query: StoredQuery, act: String, id: UUID)(
      body: OfflineRun => A
  ): A = {
    val conf = session.sessionState.newHadoopConf()
    CutsAtRest.parts(query.location, conf).filter(_._1.last().isDefined) match {
      case None                  => body(new OfflineRun(session, id, None))
      case Some((archive, logs)) =>
        val cuts = DriverCuts.beginAct(query.location, id.toString, archive, logs)
        try {
          check(query, act, cuts.begin(id.toString).committed, cuts)
          body(new OfflineRun(session, id, Some(cuts)))
        } finally DriverCuts.endAct(id.toString)
    }
  }

  private def check(query: StoredQuery, act: String, committed: Long, cuts: QueryCuts): Unit = {
    def refused(reason: String) = throw Errors.offlineRefused(act, query.location, reason)
    if (committed != query.last) {
      refused(s"epoch $committed has been committed meanwhile; is the query running?")
    }
    // What is gone back to takes its own rows along.
    val inFlight = if (query.isBack) 0L else cuts.status.channels.map(_.deferred.rows).sum
    if (inFlight > 0) {
      refused(
        s"its last cut holds $inFlight rows in flight; run the query with " +
          "trigger(availableNow=True) first, which takes them up"
      )
    }
  }
}
