package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI

import io.cleancut.cutstore.Notes

/**
 * Adds the tab "Cuts" to Spark's UI. A session with Cleancut's extension adds it immediately, even
 * if it joins a running context, in which Spark does not load plugins any more.
 */
object CutsUi extends Logging {
  // Contexts that have the tab, or cannot have it.
  private val known = new mutable.WeakHashMap[SparkContext, Unit]
  @volatile private var notes: String => Option[Notes] = _ => None

  /**
   * Sets the function that returns the known restore tests and replicas of the query at a location,
   * without requests to the store.
   */
  def setNotes(source: String => Option[Notes]): Unit = notes = source

  /** Adds the tab to the active context, if there is one. */
  def attach(): Unit = SparkContext.getActive.foreach(attach)

  def attach(context: SparkContext): Unit = synchronized {
    if (known.put(context, ()).isEmpty) {
      try {
        (context.ui, context.statusStore.store) match {
          case (Some(ui), store: ElementTrackingStore) =>
            context.listenerBus.addToStatusQueue(new CutsListener(context.getConf, store))
            CutsTab.attach(new CutsStore(store), location => notes(location), ui)
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
    if (!store.isEmpty) CutsTab.attach(store, _ => None, ui)
  }

  // After Spark's own tabs.
  override def displayOrder: Int = 100
}
