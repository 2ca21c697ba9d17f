package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.execution.streaming.state.cleancut.history._
import org.apache.spark.status.ElementTrackingStore
import org.apache.spark.util.Utils

import io.cleancut.conf.Keys
import io.cleancut.history.EpochRecordJson

/**
 * Stores the events of epochs for the pages, of a running driver and of an event log. Events of a
 * later version are ignored.
 */
final private[ui] class CutsListener(conf: SparkConf, store: ElementTrackingStore)
    extends SparkListener
    with Logging {
  private val keep = {
    val settings =
      conf.getAllWithPrefix(Keys.Prefix).map { case (key, value) => (Keys.Prefix + key) -> value }
    Keys.UiEpochs.read(settings.toMap).getOrElse(Keys.UiEpochs.default)
  }

  store.addTrigger(classOf[EpochEntry], keep.toLong)(count => deleteOldest(count - keep))

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case CleancutRunBegun(RunFacts.Version, location, run) =>
      store.write(new RunEntry(location, run))
    case CleancutEpochCommitted(EpochRecordJson.Version, location, epoch, json) =>
      EpochRecordJson.read(json) match {
        case Right(record) =>
          store.write(EpochEntry.of(location, record, json), checkTriggers = true)
          ()
        case Left(reason) => logInfo(s"Epoch $epoch of $location is not shown: $reason")
      }
    case _ => ()
  }

  private def deleteOldest(count: Long): Unit = {
    val oldest = store.view(classOf[EpochEntry]).index("writtenMs")
    val expired = Utils.tryWithResource(oldest.closeableIterator()) { entries =>
      entries.asScala.take(count.toInt).map(_.key).toVector
    }
    expired.foreach(store.delete(classOf[EpochEntry], _))
  }
}
