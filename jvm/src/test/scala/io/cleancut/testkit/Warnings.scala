package io.cleancut.testkit

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property

/** What this process warns of. */
object Warnings {

  /** The messages that came while `body` ran. */
  def during(body: => Unit): Seq[String] = {
    val root = LogManager.getRootLogger.asInstanceOf[Logger]
    val found = new ConcurrentLinkedQueue[String]
    val appender =
      new AbstractAppender("warnings", null, null, false, Array.empty[Property]) {
        override def append(event: LogEvent): Unit =
          if (event.getLevel.isMoreSpecificThan(Level.WARN)) {
            found.add(event.getMessage.getFormattedMessage)
            ()
          }
      }
    appender.start()
    root.addAppender(appender)
    try body
    finally root.removeAppender(appender)
    found.asScala.toSeq
  }
}
