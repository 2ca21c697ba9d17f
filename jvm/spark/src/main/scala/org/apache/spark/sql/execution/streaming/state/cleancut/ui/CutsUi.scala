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
 * Puts the tab "Cuts" into Spark's pages. A session that has Cleancut's extension has it at once,
 * also one that joins a context which runs already, where Spark loads no plugins any more.
 */
object CutsUi extends Logging {
  // Contexts that have the tab, or cannot have it.
  private val known = new mutable.WeakHashMap[SparkContext, Unit]
  @volatile private var notes: String => Option[Notes] = _ => None

  /** Has pages ask so what others have noted of the query at a location; no request for that. */
  def askForNotes(asked: String => Option[Notes]): Unit = notes = asked

  /** Into those of the context that there is, if there is one. */
  def attach(): Unit = SparkContext.getActive.foreach(attach)

  def attach(context: SparkContext): Unit = synchronized {
    if (known.put(context, ()).isEmpty) {
      try {
        (context.ui, context.statusStore.store) match {
          case (Some(ui), store: ElementTrackingStore) =>
            context.listenerBus.addToStatusQueue(new CutsListener(context.getConf, store))
            CutsTab.attach(new CutsStore(store), location => notes(location), ui)
          case _ => logInfo("Spark shows no pages, and so none of cuts")
        }
      } catch { case NonFatal(e) => logWarning("Spark's pages have no tab of cuts", e) }
    }
  }
}

/** The same on a history server, of which the jars have to be on the class path. */
final private[spark] class CutsHistoryPlugin extends AppHistoryServerPlugin {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new CutsListener(conf, store))

  override def setupUI(ui: SparkUI): Unit = {
    val store = new CutsStore(ui.store.store)
    if (!store.isEmpty) CutsTab.attach(store, _ => None, ui)
  }

  // Behind Spark's own.
  override def displayOrder: Int = 100
}
