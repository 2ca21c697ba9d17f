package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI

import io.cleancut.coordinator.driver.ParkedRun
import io.cleancut.cutstore.Notes

/**
 * What a driver knows about its queries without requests to the store; nothing on a history server.
 *
 * @param notes
 *   restore tests and replicas of the query at a location, as far as known
 * @param parked
 *   runs that wait to take over their query
 */
final case class LiveQueries(
    notes: String => Option[Notes] = _ => None,
    parked: () => Seq[ParkedRun] = () => Nil
)

/**
 * Adds the tab "Cuts" to Spark's UI. A session with Cleancut's extension adds it immediately, even
 * if it joins a running context, in which Spark does not load plugins any more.
 */
object CutsUi extends Logging {
  // Contexts that have the tab, or cannot have it.
  private val known = new mutable.WeakHashMap[SparkContext, Unit]
  @volatile private var live = LiveQueries()

  def setLive(queries: LiveQueries): Unit = live = queries

  /** Adds the tab to the active context, if there is one. */
  def attach(): Unit = SparkContext.getActive.foreach(attach)

  def attach(context: SparkContext): Unit = synchronized {
    if (known.put(context, ()).isEmpty) {
      try {
        (context.ui, context.statusStore.store) match {
          case (Some(ui), store: ElementTrackingStore) =>
            context.listenerBus.addToStatusQueue(new CutsListener(context.getConf, store))
            CutsTab.attach(new CutsStore(store), () => live, ui)
          case _ => logInfo("Spark has no UI, so the tab of cuts is not added")
        }
      } catch {
        case NonFatal(e) => logWarning("The tab of cuts could not be added to Spark's UI", e)
      }
    }
  }
}

/** Adds the tab on a history server. Its class path must have the jars. */
final private[spark] class CutsHistoryPlugin extends AppHistoryServerPlugin {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new CutsListener(conf, store))

  override def setupUI(ui: SparkUI): Unit = {
    val store = new CutsStore(ui.store.store)
    if (!store.isEmpty) CutsTab.attach(store, () => LiveQueries(), ui)
  }

  // After Spark's own tabs.
  override def displayOrder: Int = 100
}
