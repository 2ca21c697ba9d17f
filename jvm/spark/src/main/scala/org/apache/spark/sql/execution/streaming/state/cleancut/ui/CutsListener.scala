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
 * Keeps what the events of epochs say for the pages, of a driver that runs and of one whose event
 * log is read. Events of a later version are left out.
 */
final private[ui] class CutsListener(conf: SparkConf, store: ElementTrackingStore)
    extends SparkListener
    with Logging {
  private val keep = {
    val set = conf.getAllWithPrefix(Keys.Prefix).map { case (key, of) => (Keys.Prefix + key) -> of }
    Keys.UiEpochs.read(set.toMap).getOrElse(Keys.UiEpochs.default)
  }

  store.addTrigger(classOf[EpochEntry], keep.toLong)(count => forget(count - keep))

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case CleancutRunBegun(RunFacts.Version, location, run) =>
      store.write(new RunEntry(location, run))
    case CleancutEpochCommitted(EpochRecordJson.Version, location, epoch, json) =>
      EpochRecordJson.read(json) match {
        case Right(record) =>
          store.write(EpochEntry.of(location, record, json), checkTriggers = true)
          ()
        case Left(why) => logInfo(s"Epoch $epoch of $location is not shown: $why")
      }
    case _ => ()
  }

  private def forget(count: Long): Unit = {
    val oldest = store.view(classOf[EpochEntry]).index("writtenMs")
    val found = Utils.tryWithResource(oldest.closeableIterator()) { entries =>
      entries.asScala.take(count.toInt).map(_.key).toVector
    }
    found.foreach(store.delete(classOf[EpochEntry], _))
  }
}
