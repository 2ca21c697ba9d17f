package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import java.util.UUID

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf

/** Gives the state of a stopped query to another provider, where it lies. */
object Adoption {

  /**
   * @param providerClass
   *   whose it is to be
   * @return
   *   the epoch that did it, with the rows of each operator
   */
  def adopt(session: SparkSession, location: String, providerClass: String): (Long, Seq[Long]) = {
    val query = StoredQuery.read(session, location, "adopt")
    val conf = query.confOf(session)
    val source = StoresAt(query.stateRoot, StateStoreConf(conf))
    val changed = conf.clone()
    changed.setConfString(SQLConf.STATE_STORE_PROVIDER_CLASS.key, providerClass)
    val target = StoresAt(query.stateRoot, StateStoreConf(changed))
    val written = new StateRewrite(session, query, source, target, UUID.randomUUID()).run()
    val settings = Map(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> providerClass)
    val epoch = OfflineEpoch.commit(session, query.location, query, settings, written, "adopt")
    (epoch, query.operators.map(of => written.filter(_.operator == of.id).map(_.rows).sum))
  }

  /**
   * Spreads the state of a stopped query over another number of partitions.
   *
   * @return
   *   the epoch that did it, with the rows of each operator
   */
  def rescale(session: SparkSession, location: String, partitions: Int): (Long, Seq[Long]) = {
    val query = StoredQuery.read(session, location, "rescale")
    val stores = StoresAt(query.stateRoot, StateStoreConf(query.confOf(session)))
    val written =
      new StateRewrite(session, query, stores, stores, UUID.randomUUID()).run(partitions)
    val settings = Map(SQLConf.SHUFFLE_PARTITIONS.key -> partitions.toString)
    val epoch = OfflineEpoch.commit(session, query.location, query, settings, written, "rescale")
    (epoch, query.operators.map(of => written.filter(_.operator == of.id).map(_.rows).sum))
  }
}
